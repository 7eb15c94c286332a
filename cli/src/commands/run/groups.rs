//! The inputs of an item, and how they go through the model together.
//!
//! A `batch` plan divides the inputs of an item into groups. Each group has a copy of the model that takes as many at once,
//! placed as the plan says. For the other objectives an item is one input, and there is one group.

use std::collections::BTreeMap;

use divvy_core::ids::OpId;
use divvy_core::plan::{Batch, BatchPlan, LatencyPlan, Plan};
use divvy_core::problem::Problem;
use divvy_exec::tensor::HostTensor;

/// Inputs that go through the model together.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::commands) struct Group {
    /// Which of the item's inputs.
    pub(in crate::commands) inputs: Vec<usize>,
    /// Where their ops run.
    pub(in crate::commands) plan: Plan,
}

impl Group {
    /// How many inputs, as batch sizes are counted.
    pub(in crate::commands) fn size(&self) -> u32 {
        self.inputs.len() as u32
    }
}

/// The groups of a plan. Fails, with the reason, where a plan puts inputs together anew on the way.
pub(super) fn groups(problem: &Problem, plan: &Plan) -> Result<Vec<Group>, String> {
    match plan {
        Plan::Batch(batch) => of_batch(problem, batch),
        other => Ok(vec![Group { inputs: vec![0], plan: other.clone() }]),
    }
}

fn of_batch(problem: &Problem, plan: &BatchPlan) -> Result<Vec<Group>, String> {
    let mut orders: BTreeMap<Vec<[u32; 2]>, Vec<Vec<OpId>>> = BTreeMap::new();
    for (device, list) in plan.order.iter().enumerate() {
        for &index in list {
            let batch: &Batch = &plan.batches[index as usize];
            let order =
                orders.entry(batch.united_inputs()).or_insert_with(|| vec![Vec::new(); plan.order.len()]);
            order[device].push(batch.op);
        }
    }
    let ops = problem.graph.op_count();
    for order in orders.values() {
        let mut missing = vec![true; ops];
        order.iter().flatten().for_each(|op| missing[op.index()] = false);
        if let Some(op) = problem.graph.ops().find(|op| missing[op.index()]) {
            let name = problem.graph.op_name(op);
            return Err(format!(
                "inputs that were together before `{name}` are put together otherwise there"
            ));
        }
    }
    let group = |(ranges, order): (Vec<[u32; 2]>, Vec<Vec<OpId>>)| Group {
        inputs: ranges.iter().flat_map(|&[first, last]| first as usize..=last as usize).collect(),
        plan: Plan::Latency(LatencyPlan { order, transfers: Vec::new() }),
    };
    Ok(orders.into_iter().map(group).collect())
}

/// What the program is fed for one item: for each group, the arrays of its inputs, one for each input of the model.
pub(super) fn feed(groups: &[Group], inputs: &[Vec<HostTensor>]) -> Result<Vec<HostTensor>, String> {
    let mut fed = Vec::new();
    let names = inputs.first().map_or(0, Vec::len);
    for (group, name) in groups.iter().flat_map(|group| (0..names).map(move |name| (group, name))) {
        let parts: Vec<&HostTensor> = group.inputs.iter().map(|&input| &inputs[input][name]).collect();
        fed.push(match parts.as_slice() {
            [only] => (*only).clone(),
            _ => HostTensor::stack(&parts).ok_or("arrays without a first dimension cannot go together")?,
        });
    }
    Ok(fed)
}

/// What came out for each input of an item: the inverse of [`feed`], for results.
pub(super) fn apart(groups: &[Group], results: &[HostTensor]) -> Result<Vec<Vec<HostTensor>>, String> {
    let count: usize = groups.iter().map(|group| group.inputs.len()).sum();
    let each = results.len() / groups.len().max(1);
    let mut of_input: Vec<Vec<HostTensor>> = vec![Vec::new(); count];
    for (group, results) in groups.iter().zip(results.chunks(each.max(1))) {
        for (place, &input) in group.inputs.iter().enumerate() {
            for result in results {
                let part = match group.inputs.len() {
                    1 => Some(result.clone()),
                    count => result.part(place, count),
                };
                let fault = || format!("a result of shape {:?} does not come apart", result.shape);
                of_input[input].push(part.ok_or_else(fault)?);
            }
        }
    }
    Ok(of_input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use divvy_exec::tensor::Data;

    fn group(inputs: &[usize]) -> Group {
        Group { inputs: inputs.to_vec(), plan: Plan::Latency(LatencyPlan::default()) }
    }

    #[test]
    fn inputs_go_together_and_results_come_apart() {
        let row = |i: i32| vec![HostTensor { shape: vec![1, 2], data: Data::I32(vec![i, 10 * i]) }];
        let inputs: Vec<Vec<HostTensor>> = (0..3).map(row).collect();
        let groups = [group(&[0, 2]), group(&[1])];
        let fed = feed(&groups, &inputs).unwrap();
        assert_eq!(fed[0], HostTensor { shape: vec![2, 2], data: Data::I32(vec![0, 0, 2, 20]) });
        assert_eq!(fed[1], inputs[1][0]);
        assert_eq!(apart(&groups, &fed).unwrap(), inputs);
    }
}
