//! CUDA cards, through ONNX Runtime's CUDA provider and the driver.
//!
//! Both are loaded when they are needed: the same program runs where neither is there, and says what is missing. Sessions of a card
//! work on one queue of the driver's, so the order of calls is the order of work, and none of them waits for it.
//!
//! | file | what it does |
//! |---|---|
//! | `libraries` | finds the provider and the kernel libraries that it needs, or says how to get them |
//! | `driver` | memory of cards, pinned host memory, queues, moments; unsafe code is here |
//! | `host_reader` | a kernel that reads pinned host memory, past the copy engine |
//! | `session` | sessions whose inputs and outputs lie at given addresses of a card |
//! | `stage` | a card as a device of a warm program |
//! | `card` | a card in a cold start |
//! | `rates` | how fast copies to and from a card are |

mod card;
mod driver;
mod host_reader;
mod libraries;
mod rates;
mod session;
mod stage;

pub use card::{CardRoom, CudaCard};
pub use driver::{CardInfo, Pinned, cards, memory_of};
pub use libraries::check;
pub use rates::{CopyRates, CopyTraffic, copy_rates};
pub use stage::CudaBackend;
