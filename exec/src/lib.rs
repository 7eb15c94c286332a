//! Running plans on one machine, and measuring them.
//!
//! | file | what it does |
//! |---|---|
//! | [`tensor`] | values in memory, handed over without copies |
//! | [`mapped`] | files in memory without a copy |
//! | [`npy`] | reads and writes them as `.npy` and `.npz` |
//! | [`cores`] | sets of CPU cores, and threads pinned to them |
//! | [`backend`] | what a device must be able to do |
//! | [`backends`] | the devices there are: ONNX Runtime on CPU cores and on CUDA cards, and simulated cards |
//! | [`program`] | stages, what feeds what, and where each runs |
//! | [`executor`] | runs a program: a queue for each device and link |
//! | [`cold_start`] | runs one request whose weights come from host memory meanwhile |
//! | [`measure`] | medians and spread of what was timed |
//! | [`compare`] | whether two results are equal within rounding |
//!
//! This crate knows neither plans nor model files: who calls it cuts the model and hands over the pieces. A device in
//! another process or on an accelerator is one more [`backend::Backend`].

pub mod backend;
pub mod backends;
pub mod cold_start;
pub mod compare;
pub mod cores;
pub mod executor;
pub mod mapped;
pub mod measure;
pub mod npy;
pub mod program;
pub mod stage_error;
pub mod tensor;
