//! How much memory a model takes once it is decoded, found by a walk over the bytes before anything is built.
//!
//! Messages take far more memory than their bytes: an attribute that is two bytes long in the file is hundreds in
//! memory. Data of weights stay slices of the file and count nothing.

use std::mem::size_of;

use super::proto;

/// The kinds of messages.
#[derive(Clone, Copy)]
pub(super) enum MessageKind {
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

impl MessageKind {
    /// The message that a field holds; none for plain fields.
    fn field(self, number: u64) -> Option<MessageKind> {
        Some(match (self, number) {
            (MessageKind::Model, 7)
            | (MessageKind::Attribute, 6 | 11)
            | (MessageKind::TrainingInfo, 1 | 2) => MessageKind::Graph,
            (MessageKind::Model, 8) | (MessageKind::Function, 9) => MessageKind::OperatorSet,
            (MessageKind::Model | MessageKind::Function, 14)
            | (MessageKind::Graph, 16)
            | (MessageKind::Node, 9)
            | (MessageKind::ValueInfo, 4)
            | (MessageKind::Tensor, 13 | 16)
            | (MessageKind::TensorAnnotation, 2)
            | (MessageKind::TrainingInfo, 3 | 4) => MessageKind::Entry,
            (MessageKind::Model, 20) => MessageKind::TrainingInfo,
            (MessageKind::Model, 25) => MessageKind::Function,
            (MessageKind::Model, 26) => MessageKind::DeviceConfiguration,
            (MessageKind::Graph, 1) | (MessageKind::Function, 7) => MessageKind::Node,
            (MessageKind::Graph, 5)
            | (MessageKind::Attribute, 5 | 10)
            | (MessageKind::SparseTensor, 1 | 2) => MessageKind::Tensor,
            (MessageKind::Graph, 15) | (MessageKind::Attribute, 22 | 23) => MessageKind::SparseTensor,
            (MessageKind::Graph, 11..=13) | (MessageKind::Function, 12) => MessageKind::ValueInfo,
            (MessageKind::Graph, 14) => MessageKind::TensorAnnotation,
            (MessageKind::Node, 5) | (MessageKind::Function, 11) => MessageKind::Attribute,
            (MessageKind::Node, 10) => MessageKind::NodeDeviceConfiguration,
            (MessageKind::Attribute, 14 | 15)
            | (MessageKind::ValueInfo | MessageKind::MapType, 2)
            | (MessageKind::ElementType, 1) => MessageKind::Type,
            (MessageKind::Tensor, 3) => MessageKind::Segment,
            (MessageKind::TensorType, 2) => MessageKind::Shape,
            (MessageKind::Shape, 1) => MessageKind::Dimension,
            (MessageKind::Type, 1 | 8) => MessageKind::TensorType,
            (MessageKind::Type, 4 | 9) => MessageKind::ElementType,
            (MessageKind::Type, 5) => MessageKind::MapType,
            (MessageKind::Type, 7) => MessageKind::OpaqueType,
            (MessageKind::NodeDeviceConfiguration, 2) => MessageKind::ShardingSpec,
            (MessageKind::ShardingSpec, 3) => MessageKind::IntIntListEntry,
            (MessageKind::ShardingSpec, 4) => MessageKind::ShardedDim,
            (MessageKind::ShardedDim, 2) => MessageKind::SimpleShardedDim,
            _ => return None,
        })
    }

    /// Bytes of the message in memory, without what it refers to.
    fn size(self) -> usize {
        match self {
            MessageKind::Model => size_of::<proto::Model>(),
            MessageKind::OperatorSet => size_of::<proto::OperatorSet>(),
            MessageKind::Entry => size_of::<proto::Entry>(),
            MessageKind::Graph => size_of::<proto::Graph>(),
            MessageKind::Node => size_of::<proto::Node>(),
            MessageKind::Attribute => size_of::<proto::Attribute>(),
            MessageKind::ValueInfo => size_of::<proto::ValueInfo>(),
            MessageKind::Tensor => size_of::<proto::Tensor>(),
            MessageKind::Segment => size_of::<proto::Segment>(),
            MessageKind::SparseTensor => size_of::<proto::SparseTensor>(),
            MessageKind::Shape => size_of::<proto::Shape>(),
            MessageKind::Dimension => size_of::<proto::Dimension>(),
            MessageKind::Type => size_of::<proto::Type>(),
            MessageKind::TensorType => size_of::<proto::TensorType>(),
            MessageKind::ElementType => size_of::<proto::ElementType>(),
            MessageKind::MapType => size_of::<proto::MapType>(),
            MessageKind::OpaqueType => size_of::<proto::OpaqueType>(),
            MessageKind::Function => size_of::<proto::Function>(),
            MessageKind::TrainingInfo => size_of::<proto::TrainingInfo>(),
            MessageKind::TensorAnnotation => size_of::<proto::TensorAnnotation>(),
            MessageKind::DeviceConfiguration => size_of::<proto::DeviceConfiguration>(),
            MessageKind::NodeDeviceConfiguration => size_of::<proto::NodeDeviceConfiguration>(),
            MessageKind::ShardingSpec => size_of::<proto::ShardingSpec>(),
            MessageKind::IntIntListEntry => size_of::<proto::IntIntListEntry>(),
            MessageKind::ShardedDim => size_of::<proto::ShardedDim>(),
            MessageKind::SimpleShardedDim => size_of::<proto::SimpleShardedDim>(),
        }
    }

    /// Bytes in memory of a plain field whose data are `length` bytes long in the file.
    fn plain(self, number: u64, length: usize) -> usize {
        match (self, number) {
            // Weights: a slice of the file.
            (MessageKind::Tensor, 9) => 0,
            // Lists of numbers in one run; floats take what they take in the file.
            (MessageKind::Tensor, 4 | 10) => length,
            (MessageKind::Tensor, 1 | 5 | 7 | 11)
            | (MessageKind::Attribute, 8)
            | (MessageKind::SparseTensor, 3)
            | (MessageKind::ShardingSpec | MessageKind::IntIntListEntry, 2) => length * size_of::<u64>(),
            // Texts, each with a place in a list.
            _ => length + size_of::<bytes::Bytes>(),
        }
    }
}

/// How deep messages may lie in each other; the decoder goes no deeper either.
const MOST_DEPTH: u32 = 100;

/// Why a footprint cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsound {
    /// It is no protobuf, or stops short.
    Broken,
    /// Messages lie deeper in each other than the decoder goes.
    TooDeep,
}

/// Bytes that `message` takes in memory, all that it holds included and weights left out. Stops counting above `most`.
pub(super) fn footprint(message: MessageKind, bytes: &[u8], most: usize) -> Result<usize, Unsound> {
    let mut too_deep = false;
    walk(message, bytes, most, MOST_DEPTH + 1, &mut too_deep).ok_or(if too_deep {
        Unsound::TooDeep
    } else {
        Unsound::Broken
    })
}

fn walk(message: MessageKind, bytes: &[u8], most: usize, depth: u32, too_deep: &mut bool) -> Option<usize> {
    if depth == 0 {
        *too_deep = true;
        return None;
    }
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
            Some(part) => walk(part, data, most - held.min(most), depth - 1, too_deep)?,
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
        footprint(MessageKind::Model, &model.encode_to_vec(), usize::MAX).unwrap()
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
