//! The dual prices of a small transportation problem.
//!
//! Successive shortest augmenting paths from sources with supply left to sinks with demand left, each path by
//! Bellman-Ford on the residual network. The sizes are those of one op's devices, and the prices only suggest rows to
//! a linear program, so floating-point errors do no harm.

/// Amounts and improvements below this are zero.
const EPSILON: f64 = 1e-9;

/// Prices p ≥ 0 of the sources for which Σ p(u) supply(u) − Σ q(v) demand(v) is the least cost of the transport, where
/// q(v) = max over u of p(u) − cost(u, v). Supply and demand both sum to 1.
pub(crate) fn prices(supply: &[f64], demand: &[f64], cost: &dyn Fn(usize, usize) -> f64) -> Vec<f64> {
    let (sources, sinks) = (supply.len(), demand.len());
    let mut left = supply.to_vec();
    let mut wanted = demand.to_vec();
    let mut flow = vec![0.0f64; sources * sinks];
    // Every path empties a source, fills a sink or cancels a flow.
    for _ in 0..4 * (sources + sinks) * (sources + sinks) {
        let starts: Vec<bool> = left.iter().map(|&left| left > EPSILON).collect();
        let paths = ShortestPaths::new(&starts, sinks, &flow, cost);
        let nearest = (0..sinks).filter(|&v| wanted[v] > EPSILON && paths.to_sink[v].is_finite());
        let Some(end) = nearest.min_by(|&a, &b| paths.to_sink[a].total_cmp(&paths.to_sink[b])) else { break };
        let mut path = Vec::new();
        let (mut sink, mut amount) = (end, wanted[end]);
        let start = loop {
            let source = paths.before_sink[sink];
            path.push((source, sink, true));
            match paths.before_source[source] {
                Some(back) => {
                    amount = amount.min(flow[source * sinks + back]);
                    path.push((source, back, false));
                    sink = back;
                }
                None => break source,
            }
            if path.len() > 2 * (sources + sinks) {
                return paths.prices(&flow, cost);
            }
        };
        amount = amount.min(left[start]);
        left[start] -= amount;
        wanted[end] -= amount;
        for (source, sink, forward) in path {
            flow[source * sinks + sink] += if forward { amount } else { -amount };
        }
    }
    ShortestPaths::new(&vec![true; sources], sinks, &flow, cost).prices(&flow, cost)
}

/// Shortest paths from some sources in the residual network of a flow.
struct ShortestPaths {
    to_source: Vec<f64>,
    to_sink: Vec<f64>,
    before_sink: Vec<usize>,
    before_source: Vec<Option<usize>>,
}

impl ShortestPaths {
    fn new(starts: &[bool], sinks: usize, flow: &[f64], cost: &dyn Fn(usize, usize) -> f64) -> ShortestPaths {
        let sources = starts.len();
        let mut paths = ShortestPaths {
            to_source: starts.iter().map(|&start| if start { 0.0 } else { f64::INFINITY }).collect(),
            to_sink: vec![f64::INFINITY; sinks],
            before_sink: vec![0; sinks],
            before_source: vec![None; sources],
        };
        for _ in 0..sources + sinks {
            let mut changed = false;
            for source in 0..sources {
                for sink in 0..sinks {
                    let cost = cost(source, sink);
                    if paths.to_source[source] + cost < paths.to_sink[sink] - EPSILON {
                        paths.to_sink[sink] = paths.to_source[source] + cost;
                        paths.before_sink[sink] = source;
                        changed = true;
                    }
                    let can_return = flow[source * sinks + sink] > EPSILON;
                    if can_return && paths.to_sink[sink] - cost < paths.to_source[source] - EPSILON {
                        paths.to_source[source] = paths.to_sink[sink] - cost;
                        paths.before_source[source] = Some(sink);
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        paths
    }

    /// Prices by distance, each the largest for which no used sink has a negative reduced cost.
    fn prices(&self, flow: &[f64], cost: &dyn Fn(usize, usize) -> f64) -> Vec<f64> {
        let sinks = self.to_sink.len();
        let used = |sink: usize| flow.iter().skip(sink).step_by(sinks).any(|&flow| flow > EPSILON);
        let sinks: Vec<usize> = (0..sinks).filter(|&sink| used(sink)).collect();
        let price = |source: usize| {
            let most = sinks
                .iter()
                .map(|&sink| cost(source, sink) - self.to_sink[sink])
                .fold(f64::INFINITY, f64::min);
            if most.is_finite() { most } else { 0.0 }
        };
        let prices: Vec<f64> = (0..self.to_source.len()).map(price).collect();
        // Only differences matter; prices are to be non-negative.
        let least = prices.iter().copied().fold(f64::INFINITY, f64::min).min(0.0);
        prices.into_iter().map(|price| price - least).collect()
    }
}

#[cfg(test)]
mod tests {
    use divvy_core::rng::Rng;

    use super::*;

    fn worth(prices: &[f64], supply: &[f64], demand: &[f64], costs: &[Vec<f64>]) -> f64 {
        let left: f64 = prices.iter().zip(supply).map(|(price, share)| price * share).sum();
        let there = |v: usize| {
            prices.iter().zip(costs).map(|(price, costs)| price - costs[v]).fold(f64::NEG_INFINITY, f64::max)
        };
        left - demand.iter().enumerate().map(|(v, share)| there(v) * share).sum::<f64>()
    }

    /// The least cost, by a linear program.
    fn least_cost(supply: &[f64], demand: &[f64], costs: &[Vec<f64>]) -> f64 {
        let mut program = divvy_solver::Program::new();
        let columns: Vec<Vec<_>> = costs
            .iter()
            .map(|row| row.iter().map(|&cost| program.column(0.0, f64::INFINITY, cost)).collect())
            .collect();
        for (row, &share) in columns.iter().zip(supply) {
            program.row(share, &row.iter().map(|&c| (c, 1.0)).collect::<Vec<_>>(), share);
        }
        for (v, &share) in demand.iter().enumerate() {
            program.at_least(share - 1e-9, &columns.iter().map(|row| (row[v], 1.0)).collect::<Vec<_>>());
        }
        divvy_solver::Solver::new(&program, &divvy_solver::Options::default()).unwrap().solve().unwrap().bound
    }

    #[test]
    fn prices_prove_the_least_cost() {
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            let shares = |rng: &mut Rng, count: usize| {
                let draws: Vec<f64> =
                    (0..count).map(|_| if rng.chance(0.3) { 0.0 } else { rng.unit() }).collect();
                let sum: f64 = draws.iter().sum();
                if sum > 0.0 {
                    draws.into_iter().map(|draw| draw / sum).collect()
                } else {
                    vec![1.0 / count as f64; count]
                }
            };
            let (sources, sinks) = (rng.between(1, 4) as usize, rng.between(1, 4) as usize);
            let (supply, demand): (Vec<f64>, Vec<f64>) = (shares(&mut rng, sources), shares(&mut rng, sinks));
            let costs: Vec<Vec<f64>> =
                (0..sources).map(|_| (0..sinks).map(|_| rng.between(0, 20) as f64).collect()).collect();
            let prices = prices(&supply, &demand, &|u, v| costs[u][v]);
            assert!(prices.iter().all(|&price| price >= 0.0));
            let (worth, least) =
                (worth(&prices, &supply, &demand, &costs), least_cost(&supply, &demand, &costs));
            assert!((worth - least).abs() < 1e-5, "{worth} {least} {supply:?} {demand:?} {costs:?}");
        }
    }
}
