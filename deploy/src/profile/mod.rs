//! Times of a model on this machine, measured before there is a plan: of every op, of cuts, and of transfers.
//!
//! The whole model runs on the cores of all devices of a class at once, as they do when a plan keeps them busy, at each batch
//! size, in turns plainly and with every kernel timed. The whole model counts by its median, as a run of a plan does; kernels
//! by the quickest quarter of the runs ([`Timings::undisturbed`](divvy_exec::measure::Timings::undisturbed)). Kernels are
//! mapped back to ops; ops that the runtime unites stay together in plans made with the profile, since they would take
//! longer apart. Timing kernels costs time of its own, so the ops' times are scaled to add up to the plain run's, piece by
//! piece to what pieces of the model take, and to what each takes on a device of its own. A profile that ONNX Runtime wrote
//! elsewhere can be read instead.
//!
//! What is done is kept in a file until all is, so that a run that was stopped goes on.
//!
//! | file | what it does |
//! |---|---|
//! | `options` | what is measured, and how often |
//! | `model_on_hardware` | the model that is profiled, and the problem it makes on the hardware |
//! | `profiler` | measures everything, one after the other |
//! | `profiled_model` | the model with inputs, ready to run on a class of devices; times of its ops |
//! | `kernel_times` | what kernels say of ops |
//! | `runtime_profiles` | op times from profiles that ONNX Runtime wrote |
//! | `class_times` | op times of a class at a batch size |
//! | `cut_model` | the model in pieces that take given shares of its time |
//! | `cut_costs` | what pieces take beyond the whole model |
//! | `card_costs` | copies of a card, and cores beside them |
//! | `handovers` | what a piece on cores costs beside a card |
//! | `in_place` | how long ops take that read their weights in place |
//! | `transfer_times` | how long values take from one device to another |
//! | `contention` | what devices of a class do to each other |
//! | `turns` | programs that take turns, so that the machine's other work falls on all of them |
//! | `checkpoint` | what is done, kept in a file |
//! | `model_profile` | all that was measured, and the file for planning with it |
//! | `measured_hardware` | the hardware with its links as measured |

mod card_costs;
mod checkpoint;
mod class_times;
mod contention;
mod cut_costs;
mod cut_model;
mod handovers;
mod in_place;
mod kernel_times;
mod measured_hardware;
mod model_on_hardware;
mod model_profile;
mod options;
mod profiled_model;
mod profiler;
mod runtime_profiles;
mod transfer_times;
mod turns;

pub use class_times::ClassTimes;
pub use contention::Contention;
pub use cut_costs::{CutCosts, CutStyle, PieceRates};
pub use model_on_hardware::ModelOnHardware;
pub use model_profile::ModelProfile;
pub use options::ProfileOptions;
pub use profiler::Profiler;
pub use runtime_profiles::read_runtime_profiles;
pub use transfer_times::Transfer;
