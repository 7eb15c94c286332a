//! How much memory a model takes once it is decoded, found by a walk over the bytes before anything is built.
//!
//! Messages take far more memory than their bytes: an attribute that is two bytes long in the file is hundreds in
//! memory. Data of weights stay slices of the file and count nothing.

use std::mem::size_of;

use super::proto;

/// The kinds of messages.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Model,
    OperatorSet,
    Entry,
    Graph,
    Node,
    Attribute,
    ValueInfo,
    Tensor,
    Segment,
    SparseTensor,
    Shape,
    Dimension,
    Type,
    TensorType,
    ElementType,
    MapType,
    OpaqueType,
    Function,
    TrainingInfo,
    TensorAnnotation,
    DeviceConfiguration,
    NodeDeviceConfiguration,
    ShardingSpec,
    IntIntListEntry,
    ShardedDim,
    SimpleShardedDim,
}

impl Kind {
    /// The message that a field holds; none for plain fields.
    fn field(self, number: u64) -> Option<Kind> {
        Some(match (self, number) {
            (Kind::Model, 7) | (Kind::Attribute, 6 | 11) | (Kind::TrainingInfo, 1 | 2) => Kind::Graph,
            (Kind::Model, 8) | (Kind::Function, 9) => Kind::OperatorSet,
            (Kind::Model | Kind::Function, 14)
            | (Kind::Graph, 16)
            | (Kind::Node, 9)
            | (Kind::ValueInfo, 4)
            | (Kind::Tensor, 13 | 16)
            | (Kind::TensorAnnotation, 2)
            | (Kind::TrainingInfo, 3 | 4) => Kind::Entry,
            (Kind::Model, 20) => Kind::TrainingInfo,
            (Kind::Model, 25) => Kind::Function,
            (Kind::Model, 26) => Kind::DeviceConfiguration,
            (Kind::Graph, 1) | (Kind::Function, 7) => Kind::Node,
            (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) | (Kind::SparseTensor, 1 | 2) => Kind::Tensor,
            (Kind::Graph, 15) | (Kind::Attribute, 22 | 23) => Kind::SparseTensor,
            (Kind::Graph, 11..=13) | (Kind::Function, 12) => Kind::ValueInfo,
            (Kind::Graph, 14) => Kind::TensorAnnotation,
            (Kind::Node, 5) | (Kind::Function, 11) => Kind::Attribute,
            (Kind::Node, 10) => Kind::NodeDeviceConfiguration,
            (Kind::Attribute, 14 | 15) | (Kind::ValueInfo | Kind::MapType, 2) | (Kind::ElementType, 1) => {
                Kind::Type
            }
            (Kind::Tensor, 3) => Kind::Segment,
            (Kind::TensorType, 2) => Kind::Shape,
            (Kind::Shape, 1) => Kind::Dimension,
            (Kind::Type, 1 | 8) => Kind::TensorType,
            (Kind::Type, 4 | 9) => Kind::ElementType,
            (Kind::Type, 5) => Kind::MapType,
            (Kind::Type, 7) => Kind::OpaqueType,
            (Kind::NodeDeviceConfiguration, 2) => Kind::ShardingSpec,
            (Kind::ShardingSpec, 3) => Kind::IntIntListEntry,
            (Kind::ShardingSpec, 4) => Kind::ShardedDim,
            (Kind::ShardedDim, 2) => Kind::SimpleShardedDim,
            _ => return None,
        })
    }

    /// Bytes of the message in memory, without what it refers to.
    fn size(self) -> usize {
        match self {
            Kind::Model => size_of::<proto::Model>(),
            Kind::OperatorSet => size_of::<proto::OperatorSet>(),
            Kind::Entry => size_of::<proto::Entry>(),
            Kind::Graph => size_of::<proto::Graph>(),
            Kind::Node => size_of::<proto::Node>(),
            Kind::Attribute => size_of::<proto::Attribute>(),
            Kind::ValueInfo => size_of::<proto::ValueInfo>(),
            Kind::Tensor => size_of::<proto::Tensor>(),
            Kind::Segment => size_of::<proto::Segment>(),
            Kind::SparseTensor => size_of::<proto::SparseTensor>(),
            Kind::Shape => size_of::<proto::Shape>(),
            Kind::Dimension => size_of::<proto::Dimension>(),
            Kind::Type => size_of::<proto::Type>(),
            Kind::TensorType => size_of::<proto::TensorType>(),
            Kind::ElementType => size_of::<proto::ElementType>(),
            Kind::MapType => size_of::<proto::MapType>(),
            Kind::OpaqueType => size_of::<proto::OpaqueType>(),
            Kind::Function => size_of::<proto::Function>(),
            Kind::TrainingInfo => size_of::<proto::TrainingInfo>(),
            Kind::TensorAnnotation => size_of::<proto::TensorAnnotation>(),
            Kind::DeviceConfiguration => size_of::<proto::DeviceConfiguration>(),
            Kind::NodeDeviceConfiguration => size_of::<proto::NodeDeviceConfiguration>(),
            Kind::ShardingSpec => size_of::<proto::ShardingSpec>(),
            Kind::IntIntListEntry => size_of::<proto::IntIntListEntry>(),
            Kind::ShardedDim => size_of::<proto::ShardedDim>(),
            Kind::SimpleShardedDim => size_of::<proto::SimpleShardedDim>(),
        }
    }

    /// Bytes in memory of a plain field whose data are `length` bytes long in the file.
    fn plain(self, number: u64, length: usize) -> usize {
        match (self, number) {
            // Weights: a slice of the file.
            (Kind::Tensor, 9) => 0,
            // Lists of numbers in one run; floats take what they take in the file.
            (Kind::Tensor, 4 | 10) => length,
            (Kind::Tensor, 1 | 5 | 7 | 11)
            | (Kind::Attribute, 8)
            | (Kind::SparseTensor, 3)
            | (Kind::ShardingSpec | Kind::IntIntListEntry, 2) => length * size_of::<u64>(),
            // Texts, each with a place in a list.
            _ => length + size_of::<bytes::Bytes>(),
        }
    }
}

/// How deep messages may lie in each other; the decoder goes no deeper either.
const MOST_DEPTH: u32 = 100;

/// Bytes that `message` takes in memory, all that it holds included and weights left out; none if `bytes` are not
/// sound protobuf, or nested too deeply. Stops counting above `most`.
pub(super) fn footprint(message: Kind, bytes: &[u8], most: usize) -> Option<usize> {
    walk(message, bytes, most, MOST_DEPTH)
}

fn walk(message: Kind, bytes: &[u8], most: usize, depth: u32) -> Option<usize> {
    let mut held = message.size();
    let mut rest = bytes;
    while !rest.is_empty() && held <= most {
        let key = varint(&mut rest)?;
        let length = match key & 7 {
            0 => {
                varint(&mut rest)?;
                held += size_of::<u64>();
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (data, after) = rest.split_at_checked(length)?;
        held += match message.field(key >> 3).filter(|_| key & 7 == 2) {
            Some(part) => walk(part, data, most - held.min(most), depth.checked_sub(1)?)?,
            None => message.plain(key >> 3, length),
        };
        rest = after;
    }
    Some(held)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use prost::Message;

    use super::*;

    fn held(model: &proto::Model) -> usize {
        footprint(Kind::Model, &model.encode_to_vec(), usize::MAX).unwrap()
    }

    #[test]
    fn parts_are_counted_in_full_and_weights_not_at_all() {
        let tensor =
            |bytes| proto::Tensor { raw_data: Some(Bytes::from(vec![1; bytes])), ..Default::default() };
        let attribute = proto::Attribute { t: Some(tensor(5000).into()), ..Default::default() };
        let node = proto::Node { attribute: vec![attribute; 3], ..Default::default() };
        let mut model = proto::Model { graph: Some(proto::Graph::default()), ..Default::default() };
        let empty = held(&model);
        model.graph.as_mut().unwrap().node = vec![node; 2];
        let node = size_of::<proto::Node>();
        let attribute = size_of::<proto::Attribute>() + size_of::<proto::Tensor>();
        assert_eq!(held(&model), empty + 2 * (node + 3 * attribute));
        model.graph.as_mut().unwrap().initializer = vec![tensor(1 << 20)];
        assert_eq!(held(&model), empty + 2 * (node + 3 * attribute) + size_of::<proto::Tensor>());
    }

    #[test]
    fn an_attribute_is_small() {
        assert!(size_of::<proto::Attribute>() < 500, "{}", size_of::<proto::Attribute>());
    }
}
