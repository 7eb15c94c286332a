//! The plan inside a plan file, as a list of pieces: `{device, ops}`, those of a device in the order it runs them.
//!
//! For makespan objectives the pieces take the place of orders and cuts, and are the decisions. A list of ops for each device,
//! `order`, is read too: then the plan lists no pieces. For period objectives pieces follow from the rest of the plan; what a
//! file says of them is a claim.

use std::collections::HashMap;

use divvy_core::ids::{DeviceId, OpId};
use divvy_core::input_error::Code;
use divvy_core::plan::{Batch, Cuts, Piece, Plan};
use serde_json::{Value, json};

use crate::problem_file::typed;
use crate::reader::Item;

/// A plan as it is written; `pieces` are those that the check found, or none where it found none.
pub(crate) fn write(plan: &Plan, pieces: &[Piece]) -> Value {
    let mut value = json!(plan);
    if let (Value::Object(fields), false) = (&mut value, pieces.is_empty()) {
        fields.remove("order");
        fields.remove("cuts");
        fields.insert("pieces".to_owned(), json!(pieces));
    }
    value
}

/// A plan for so many devices, and the pieces that the file lists. Without hardware, which faults the file elsewhere, pieces
/// are not looked at.
pub(crate) fn read(item: &Item<'_, '_>, devices: Option<usize>) -> Option<(Plan, Vec<Piece>)> {
    let Value::Object(mut fields) = item.value().clone() else { return None };
    fields.remove("pieces");
    let listed = item.optional("pieces");
    let pieces: Vec<Piece> = match &listed {
        Some(listed) => typed(listed)?,
        None => Vec::new(),
    };
    if let Some(listed) = &listed
        && matches!(fields.get("objective").and_then(Value::as_str), Some("latency" | "batch" | "cold-start"))
    {
        if fields.contains_key("order") {
            listed.fault(
                Code::Contradiction,
                "the plan has `order` too",
                "pieces say all of it: drop `order`",
            );
            return None;
        }
        let fault = |message: String| {
            listed.fault(Code::Dangling, message, "see docs/formats.md for what belongs here");
        };
        let (pieces, devices) = devices.map_or((&[][..], 0), |devices| (&pieces[..], devices));
        if let Some(piece) = pieces.iter().find(|piece| piece.device.index() >= devices) {
            fault(format!("there is no device {}", piece.device.0));
            return None;
        }
        if pieces.iter().any(|piece| piece.ops.is_empty()) {
            fault("a piece has no ops".to_owned());
            return None;
        }
        let (order, cuts) = by_device(pieces, devices);
        if fields.get("objective").and_then(Value::as_str) == Some("batch") {
            let batches: Vec<Batch> = typed(&item.required("batches")?)?;
            fields.insert("order".to_owned(), json!(of_batches(&batches, &order, fault)?));
        } else {
            fields.insert("order".to_owned(), json!(order));
        }
        fields.insert("cuts".to_owned(), json!(cuts));
    }
    let fields = Value::Object(fields);
    Some((typed(&item.standing_for(&fields))?, pieces))
}

/// Orders and cuts.
fn by_device(pieces: &[Piece], devices: usize) -> (Vec<Vec<OpId>>, Cuts) {
    let (mut order, mut cuts) = (vec![Vec::new(); devices], vec![Vec::new(); devices]);
    for piece in pieces {
        let list = &mut order[piece.device.index()];
        if !list.is_empty() {
            cuts[piece.device.index()].push(list.len() as u32);
        }
        list.extend(&piece.ops);
    }
    (order, cuts)
}

/// Lists of ops as positions of their batches.
fn of_batches(batches: &[Batch], order: &[Vec<OpId>], fault: impl Fn(String)) -> Option<Vec<Vec<u32>>> {
    let numbered = batches.iter().zip(0..);
    let batch_of: HashMap<(OpId, DeviceId), u32> =
        numbered.map(|(batch, i)| ((batch.op, batch.device), i)).collect();
    let mut lists = Vec::with_capacity(order.len());
    for (device, ops) in order.iter().enumerate() {
        let mut list = Vec::with_capacity(ops.len());
        for &op in ops {
            let Some(&batch) = batch_of.get(&(op, DeviceId::new(device))) else {
                fault(format!("op {} has no batch on device {device}", op.0));
                return None;
            };
            list.push(batch);
        }
        lists.push(list);
    }
    Some(lists)
}
