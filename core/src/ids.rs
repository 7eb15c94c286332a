//! Ids: `u32` newtypes for positions in a problem's lists, so that the compiler tells an op from a device.

use serde::{Deserialize, Serialize};

/// Declares one id type; the five differ only in their names.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id of the thing at `index` of its list.
            pub fn new(index: usize) -> Self {
                $name(u32::try_from(index).expect("lists are shorter than 2^32, checked on input"))
            }

            /// The position in its list.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The ids of a list of `count` things.
            pub fn all(count: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
                (0..u32::try_from(count).expect("lists are shorter than 2^32")).map($name)
            }
        }
    };
}

id!(/// An operator of the graph.
    OpId);
id!(/// A tensor of the graph: an input, or an output of one op.
    TensorId);
id!(/// A parameter: weights that one or more ops read.
    ParamId);
id!(/// A device of the hardware.
    DeviceId);
id!(/// A class of equal devices.
    ClassId);
id!(/// Something that carries bytes and can be busy: a directed link, a half-duplex link, a bus.
    LinkId);
