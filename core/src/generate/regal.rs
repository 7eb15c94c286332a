//! Random computation graphs for the `pipeline` objective, after REGAL.
//!
//! Source: Paliwal et al., "Reinforced Genetic Algorithm Learning for Optimizing Computation Graphs" (ICLR 2020),
//! appendix A.1.4, as used by the MTPP paper (its appendix C.2). A graph of a classic random model gets a random
//! topological order. A tensor's size is drawn from N(50, 10); an op's work is the sum of its inputs and its output
//! plus the fraction |r| of all sizes, r from N(0, 0.1). One unit of size is 1 kB and one of work 1 µs, so that at
//! 1 GB/s both weigh the same. Unlike REGAL this does not filter for graphs that are hard to schedule in little
//! memory.

use super::draft::graph_of_edges;
use super::options::{MOST_DRAWS, check_range, check_size, choose};
use super::random_graphs::{NodePair, barabasi_albert, erdos_renyi, stochastic_blocks, watts_strogatz};
use crate::costs::{ClassCosts, Cost, Origin, Profile};
use crate::input_error::InputErrors;
use crate::problem::{OwnHardware, ProblemSpec};
use crate::rng::Rng;
use crate::units::Time;

/// The random model behind a graph, with REGAL's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegalFamily {
    /// Erdős and Rényi: every pair with probability 0.05.
    Er,
    /// Watts and Strogatz: four neighbours, moved with probability 0.3.
    Ws,
    /// Barabási and Albert: two edges for each new node.
    Ba,
    /// As many layers as ops per layer; ops read one to three of the layer before and now and then one of the layer
    /// before that.
    Layered,
    /// Four blocks: pairs within one with probability 0.3, others with 0.001.
    Sbm,
}

impl RegalFamily {
    /// Every family.
    pub const ALL: [RegalFamily; 5] =
        [RegalFamily::Er, RegalFamily::Ws, RegalFamily::Ba, RegalFamily::Layered, RegalFamily::Sbm];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            RegalFamily::Er => "er",
            RegalFamily::Ws => "ws",
            RegalFamily::Ba => "ba",
            RegalFamily::Layered => "layered",
            RegalFamily::Sbm => "sbm",
        }
    }

    /// The family of that name.
    pub fn named(name: &str) -> Result<RegalFamily, InputErrors> {
        choose("--family", name, &RegalFamily::ALL.map(|family| (family.name(), family)))
    }
}

/// What [`regal`] makes.
#[derive(Clone, Debug, PartialEq)]
pub struct RegalOptions {
    /// The random model.
    pub family: RegalFamily,
    /// Number of ops; REGAL has 50 to 200.
    pub nodes: u32,
    /// Seed.
    pub seed: u64,
}

impl Default for RegalOptions {
    fn default() -> RegalOptions {
        RegalOptions { family: RegalFamily::Er, nodes: 100, seed: 1 }
    }
}

/// Work grows with the square of the number of ops; with this many, the sum of all is hours, far from the clock's end.
const MOST_NODES: u32 = 100_000;
/// Each of a layered graph's ops reads the layer before the last with this probability.
const SKIP_PROBABILITY: f64 = 0.1;
/// Bytes, and nanoseconds, per unit.
const PER_UNIT: f64 = 1000.0;

/// A random computation graph with measured work, for as many identical devices as there will be stages.
pub fn regal(options: &RegalOptions) -> Result<ProblemSpec, InputErrors> {
    let mut errors = InputErrors::default();
    check_range("--nodes", options.nodes, 5, MOST_NODES, &mut errors);
    if matches!(options.family, RegalFamily::Er | RegalFamily::Sbm) {
        let pairs = u64::from(options.nodes).pow(2) / 2;
        check_size("--nodes", "pairs of ops", pairs, MOST_DRAWS, &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut rng = Rng::new(options.seed);
    let edges = edges(options, &mut rng);
    let bytes: Vec<u64> = (0..options.nodes)
        .map(|_| ((50.0 + 10.0 * rng.normal()).max(1.0) * PER_UNIT).round() as u64)
        .collect();
    let costs = work(&bytes, &edges, &mut rng);
    let name = format!("{}{}-s{}", options.family.name(), options.nodes, options.seed);
    let class = ClassCosts { class: "uniform".into(), batch_sizes: vec![1], costs: vec![costs] };
    Ok(ProblemSpec {
        graph: graph_of_edges(name, &bytes, &edges),
        profile: Profile { classes: vec![class], ..Profile::default() },
        hardware: Some(OwnHardware::UniformPerStage { bandwidth: 1_000_000_000 }),
        ..ProblemSpec::default()
    })
}

fn edges(options: &RegalOptions, rng: &mut Rng) -> Vec<NodePair> {
    let nodes = options.nodes;
    let edges = match options.family {
        RegalFamily::Layered => return layered(nodes, rng),
        RegalFamily::Er => erdos_renyi(nodes, 0.05, rng),
        RegalFamily::Ws => watts_strogatz(nodes, 4, 0.3, rng),
        RegalFamily::Ba => barabasi_albert(nodes, 2, rng),
        RegalFamily::Sbm => stochastic_blocks(nodes, 4, 0.3, 0.001, rng),
    };
    let mut position: Vec<u32> = (0..nodes).collect();
    rng.shuffle(&mut position);
    let place = |(a, b): NodePair| {
        let (a, b) = (position[a as usize], position[b as usize]);
        (a.min(b), a.max(b))
    };
    let mut edges: Vec<NodePair> = edges.into_iter().map(place).collect();
    edges.sort_unstable();
    edges
}

fn layered(nodes: u32, rng: &mut Rng) -> Vec<NodePair> {
    let layers = f64::from(nodes).sqrt().round() as usize;
    let mut sizes = vec![0u32; layers];
    for _ in 0..nodes {
        sizes[rng.below(layers)] += 1;
    }
    sizes.retain(|&size| size > 0);
    let mut edges = Vec::new();
    // The layer before the last, the last, and where the next begins.
    let (mut earlier, mut last, mut start) = (0..0, 0..sizes[0], sizes[0]);
    for &size in &sizes[1..] {
        for op in start..start + size {
            let mut choices: Vec<u32> = last.clone().collect();
            rng.shuffle(&mut choices);
            let inputs = 1 + rng.below(3);
            edges.extend(choices.iter().take(inputs).map(|&input| (input, op)));
            if !earlier.is_empty() && rng.chance(SKIP_PROBABILITY) {
                edges.push((rng.between(u64::from(earlier.start), u64::from(earlier.end) - 1) as u32, op));
            }
        }
        (earlier, last, start) = (last, start..start + size, start + size);
    }
    edges.sort_unstable();
    edges
}

/// The time of each op.
fn work(bytes: &[u64], edges: &[NodePair], rng: &mut Rng) -> Vec<Option<Cost>> {
    let all: u64 = bytes.iter().sum();
    let mut touched = bytes.to_vec();
    for &(producer, consumer) in edges {
        touched[consumer as usize] += bytes[producer as usize];
    }
    let time = |touched: u64| {
        let extra = (0.1 * rng.normal()).abs() * all as f64;
        // A byte is worth a nanosecond.
        Some(Cost { time: Time((touched + extra.round() as u64) * 1000), origin: Origin::Measured })
    };
    touched.into_iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input_error::Code;

    fn make(family: RegalFamily, nodes: u32) -> ProblemSpec {
        regal(&RegalOptions { family, nodes, seed: 2 }).unwrap()
    }

    fn edge_count(problem: &ProblemSpec) -> usize {
        problem.graph.tensors.iter().map(|t| t.consumers.len()).sum()
    }

    #[test]
    fn sizes_and_work_have_the_stated_distribution() {
        let problem = make(RegalFamily::Ws, 200);
        let bytes: Vec<f64> = problem.graph.tensors.iter().map(|t| t.bytes as f64).collect();
        let all: f64 = bytes.iter().sum();
        assert!((48_000.0..52_000.0).contains(&(all / 200.0)));
        let mut own = bytes.clone();
        for (i, tensor) in problem.graph.tensors.iter().enumerate() {
            for &consumer in &tensor.consumers {
                own[consumer as usize] += bytes[i];
            }
        }
        let work = problem.profile.classes[0].costs[0].iter().map(|cost| cost.unwrap().time.as_us() * 1000.0);
        let extra: Vec<f64> = work.zip(&own).map(|(work, own)| (work - own) / all).collect();
        assert!(extra.iter().all(|&r| r > -1e-9));
        let spread = (extra.iter().map(|r| r * r).sum::<f64>() / 200.0).sqrt();
        assert!((0.085..0.115).contains(&spread), "{spread}");
    }

    #[test]
    fn families_have_their_density() {
        assert_eq!(edge_count(&make(RegalFamily::Ws, 150)), 300);
        assert_eq!(edge_count(&make(RegalFamily::Ba, 150)), 296);
        for (family, expected) in
            [(RegalFamily::Er, 559), (RegalFamily::Sbm, 840), (RegalFamily::Layered, 290)]
        {
            let edges = edge_count(&make(family, 150));
            assert!(edges.abs_diff(expected) < expected / 6, "{}: {edges}", family.name());
        }
    }

    #[test]
    fn ops_of_later_layers_have_inputs() {
        let problem = make(RegalFamily::Layered, 150);
        let mut has_input = [false; 150];
        for tensor in &problem.graph.tensors {
            tensor.consumers.iter().for_each(|&c| has_input[c as usize] = true);
        }
        let first_layer = has_input.iter().position(|&has| has).unwrap();
        assert!(has_input[first_layer..].iter().all(|&has| has));
    }

    #[test]
    fn absurd_options_are_refused() {
        for (family, nodes) in [(RegalFamily::Ba, 0), (RegalFamily::Ba, u32::MAX), (RegalFamily::Er, 50_000)]
        {
            let errors = regal(&RegalOptions { family, nodes, seed: 1 }).unwrap_err();
            assert_eq!((errors.kept()[0].code, errors.kept()[0].place.as_str()), (Code::Range, "--nodes"));
        }
        assert_eq!(RegalFamily::named("tree").unwrap_err().kept()[0].code, Code::UnknownName);
        assert_eq!(RegalFamily::named("SBM").unwrap(), RegalFamily::Sbm);
    }
}
