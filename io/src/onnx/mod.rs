//! ONNX models: read, understood, cut.
//!
//! | file | what it does |
//! |---|---|
//! | [`proto`] | the file format as messages |
//! | [`load`] | reads a file, bounded in size |
//! | `footprint` | the memory that a file will take, before it is decoded |
//! | [`inline`] | replaces calls of local functions by their bodies |
//! | `assumptions` | what is assumed where a model does not tell |
//! | `attribute_check` | refuses attributes that make no sense |
//! | [`facts`] | element types, shapes and small constants of values |
//! | [`infer`] | works out the facts of every value of a graph |
//! | [`open_dims`] | dimensions that a model leaves open, with sizes that make sense |
//! | `dim_expression` | dimensions named by a formula of others |
//! | [`trips`] | how often loops run whose rounds depend on data |
//! | [`values`] | lists what is known of every value |
//! | [`fixed_shapes`] | tells shapes that are the same whatever the model is given |
//! | [`import`] | makes divvy's graph of it |
//! | [`symbolic`] | tells which sizes depend on symbolic dimensions |
//! | [`reads`] | what a node reads, graphs inside it included |
//! | [`pieces`] | says which nodes a plan puts together |
//! | [`flops`] | counts the operations of a node |
//! | [`cut`] | cuts a model into pieces that run one after another |
//! | [`batch`] | makes a model take several inputs at once |
//! | [`input_axis`] | which dimension of a value holds the inputs of a batch |
//! | [`regroup`] | models that join and part values of several batches |
//! | [`op_rewrites`] | writes slow operators as faster ones, for running |
//! | [`transformer`] | runnable models of transformers, made from sizes alone |
//! | [`weights`] | finds weights in files of their own, and writes pieces with theirs |

mod assumptions;
mod attribute_check;
pub mod batch;
pub mod cut;
mod dim_expression;
pub mod facts;
pub mod fixed_shapes;
pub mod flops;
mod footprint;
pub mod import;
pub mod infer;
pub mod inline;
pub mod input_axis;
pub mod load;
pub mod op_rewrites;
pub mod open_dims;
pub mod pieces;
pub mod proto;
pub mod reads;
pub mod regroup;
pub mod symbolic;
pub mod transformer;
pub mod trips;
pub mod values;
pub mod weights;
