//! Kernelisation: uniting units where no plan loses by it.
//!
//! Let u be read by c alone. If u's work and all it reads take no longer than what it sends, then in any plan u can be
//! moved into c's stage: that stage gains at most work and inputs, and what u sent no longer enters it. If c reads u
//! alone, and c's work and output take no longer than what u sends, c can be moved into u's stage likewise. Every path
//! from u leads through c, so no circle arises. This holds on identical devices, for work and transfers alone, with
//! one output per op; with overflow, limits, pins or unlike devices it does not.

use divvy_core::period::dense::Dense;

use super::net::Net;

/// Whether uniting units loses nothing.
pub(crate) fn is_valid(dense: &Dense) -> bool {
    dense.is_plain() && dense.single_outputs() && dense.input_at().is_none() && dense.output_at().is_none()
}

/// The network with all units united that can be; the network as it is where that might lose something.
pub(crate) fn kernel(dense: &Dense) -> Net<'_> {
    let mut net = Net::new(dense);
    while is_valid(dense) {
        let Some(unit_of) = unite_once(&net) else { break };
        net = Net::united(dense, &unit_of);
    }
    net
}

/// One round: each unit is united with at most one other. None if nothing can be.
fn unite_once(net: &Net<'_>) -> Option<Vec<u32>> {
    let mut into: Vec<u32> = (0..net.len() as u32).collect();
    let mut busy = vec![false; net.len()];
    let mut any = false;
    for &unit in &net.order {
        let unit = unit as usize;
        let &[reader] = net.successors.get(unit) else { continue };
        let reader = reader as usize;
        if busy[unit] || busy[reader] {
            continue;
        }
        let sends: u64 = net.outputs.get(unit).iter().map(|&t| net.leave(t as usize, 0)).sum();
        let reads: u64 = net.inputs.get(unit).iter().map(|&t| net.enter(t as usize, 0)).sum();
        let passes_on: u64 = net.outputs.get(reader).iter().map(|&t| net.leave(t as usize, 0)).sum();
        let first_joins = net.work(unit, 0) + reads <= sends;
        let second_joins =
            net.predecessors.get(reader).len() == 1 && net.work(reader, 0) + passes_on <= sends;
        if first_joins || second_joins {
            into[unit] = reader as u32;
            (busy[unit], busy[reader], any) = (true, true, true);
        }
    }
    any.then(|| net.unit_of.iter().map(|&unit| into[unit as usize]).collect())
}
