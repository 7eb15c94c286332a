//! Plan files: a plan, the problem it is for, where that came from, and what is claimed of it.
//!
//! A plan file needs nothing else to be checked. The times and the value in it are claims: [`PlanFile::check`]
//! recomputes them, and [`PlanFile::check_against`] makes sure that the embedded problem is the one that the model and
//! hardware files give.

use std::cell::RefCell;

use divvy_core::check;
use divvy_core::graph::check_printable;
use divvy_core::history::HistoryPoint;
use divvy_core::input_error::{Code, InputError};
use divvy_core::plan::{Piece, Plan};
use divvy_core::problem::{ConstraintsSpec, OwnHardware, Problem, ProblemSpec};
use divvy_core::score::Score;
use divvy_core::units::Time;
use divvy_core::violation::{Rule, Violation};
use divvy_proof::certificate::{Certificate, Standing};
use divvy_proof::verify;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::assemble::put_together;
use crate::file::Loaded;
use crate::import::is_plan;
use crate::problem_file::{check_version_from, typed};
use crate::read_options::ReadOptions;
use crate::reader::Item;
use crate::source::Source;
use crate::{Error, plan_pieces, problem_file};

/// The version of plan files that is written. It counts up where an older file could be misread.
pub const VERSION: u64 = 3;
/// The oldest version that is read: plans that list no pieces.
const OLDEST: u64 = 2;

/// What a plan file says of its own plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The value of the objective.
    pub value_ps: Time,
    /// When each op, batch or stage starts.
    #[serde(default)]
    pub starts_ps: Vec<Time>,
    /// What each device runs in one call; empty: nothing is claimed. In the file they are part of the plan.
    #[serde(skip)]
    pub pieces: Vec<Piece>,
}

impl Claim {
    /// What is true of a plan with that score.
    pub fn of(score: &Score) -> Claim {
        Claim { value_ps: score.value, starts_ps: score.starts.clone(), pieces: score.pieces.clone() }
    }
}

/// A plan file.
#[derive(Clone, Debug)]
pub struct PlanFile {
    /// The problem.
    pub problem: Problem,
    /// The plan.
    pub plan: Plan,
    /// The planner as asked for.
    pub planner: String,
    /// The planner that found it, where that is known.
    pub found_by: Option<String>,
    /// Where the problem came from.
    pub sources: Vec<Source>,
    /// How the model was read.
    pub reading: ReadOptions,
    /// What is claimed.
    pub claim: Claim,
    /// Lower bounds.
    pub certificates: Vec<Certificate>,
    /// Value and bound over the time of the search.
    pub history: Vec<HistoryPoint>,
}

/// What a check found to be true.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What the plan costs.
    pub score: Score,
    /// The best bound, verified or attested.
    pub lower_bound: Option<Time>,
    /// The best verified bound.
    pub verified_lower_bound: Option<Time>,
}

impl PlanFile {
    /// Reads a plan file. The plan itself is not checked yet.
    pub fn read(loaded: &Loaded) -> Result<PlanFile, Error> {
        let input = |errors| Error::Input { path: loaded.path.clone(), errors };
        if crate::onnx::load::looks_like_onnx(&loaded.bytes) {
            let path = &loaded.path;
            let fix = format!("make a plan of it first: divvy plan {path} --on HARDWARE -o plan.json");
            let message = "it is an ONNX model, not a plan";
            return Err(input(InputError::new(Code::Format, "file", message, fix).into()));
        }
        let value = loaded.parse()?;
        let errors = RefCell::default();
        let top = Item::top(&value, "", &errors);
        if !is_plan(&value) {
            top.fault(Code::Format, "this is not a plan file", "make one with `divvy plan -o`");
            return Err(input(errors.into_inner()));
        }
        let parts = read_parts(&top);
        let planner = top.optional("planner").and_then(|i| i.text()).unwrap_or("unknown").to_owned();
        let history = top.optional("history").map_or(Vec::new(), |i| i.each(read_point));
        let found_by = top.optional("found_by").and_then(|i| i.text()).map(str::to_owned);
        let names = [("planner", Some(&planner)), ("found_by", found_by.as_ref())].into_iter();
        let steps = history.iter().map(|point| ("history", point.by.as_ref()));
        for (place, name) in names.chain(steps) {
            check_printable(place, name.map_or("", |name| name), &mut errors.borrow_mut());
        }
        for certificate in parts.iter().flat_map(|parts| &parts.3) {
            check_printable("certificates", &certificate.bound, &mut errors.borrow_mut());
        }
        let Some((spec, plan, claim, certificates, sources, reading)) =
            parts.filter(|_| errors.borrow().is_empty())
        else {
            return Err(input(errors.into_inner()));
        };
        Ok(PlanFile {
            problem: embedded(spec).map_err(input)?,
            plan,
            planner,
            found_by,
            sources,
            reading,
            claim,
            certificates,
            history,
        })
    }

    /// The file as text.
    pub fn write(&self) -> String {
        let point = |point: &HistoryPoint| {
            let mut list = vec![json!(point.seconds), json!(point.value), json!(point.lower_bound)];
            list.extend(point.by.as_ref().map(|by| json!(by)));
            Value::Array(list)
        };
        let mut file = json!({
            "divvy": "plan", "version": VERSION, "planner": self.planner, "sources": self.sources,
            "reading": self.reading,
            "claim": self.claim, "plan": plan_pieces::write(&self.plan, &self.claim.pieces), "certificates": self.certificates,
            "history": self.history.iter().map(point).collect::<Vec<_>>(),
            "problem": problem_file::write(&self.problem.to_spec()),
        });
        if let Some(found_by) = &self.found_by {
            file["found_by"] = json!(found_by);
        }
        file.to_string()
    }

    /// Recomputes everything that the file claims.
    pub fn check(&self) -> Result<Verdict, Vec<Violation>> {
        let score = check::check(&self.problem, &self.plan)?;
        let mut violations = Vec::new();
        let mut add = |rule, place: &str, message: String| {
            violations.push(Violation { rule, place: place.to_owned(), message });
        };
        if self.claim.value_ps != score.value {
            let (claimed, real) = (self.claim.value_ps.0, score.value.0);
            add(Rule::Score, "claim.value_ps", format!("it claims {claimed} ps, the plan takes {real} ps"));
        }
        if self.claim.starts_ps != score.starts {
            let pairs = self.claim.starts_ps.iter().zip(&score.starts);
            let first = pairs.clone().position(|(claimed, real)| claimed != real).unwrap_or(pairs.len());
            let message = match (self.claim.starts_ps.get(first), score.starts.get(first)) {
                (Some(claimed), Some(real)) => {
                    format!("it claims {} ps, the start is at {} ps", claimed.0, real.0)
                }
                _ => format!("{} starts, {} are needed", self.claim.starts_ps.len(), score.starts.len()),
            };
            add(Rule::Start, &format!("claim.starts_ps[{first}]"), message);
        }
        let (mut lower_bound, mut verified_lower_bound) = (None, None);
        if !self.claim.pieces.is_empty() && !same_pieces(&self.claim.pieces, &score.pieces) {
            add(Rule::Pieces, "plan.pieces", "they are not the pieces that follow from the plan".to_owned());
        }
        for claimed in &self.certificates {
            let value = Some(claimed.value_ps);
            match verify::verify(&self.problem, claimed) {
                Ok(Standing::Verified) => verified_lower_bound = verified_lower_bound.max(value),
                Ok(Standing::Attested) => {}
                Err(violation) => violations.push(violation),
            }
            lower_bound = lower_bound.max(value);
            if claimed.value_ps > score.value {
                let message = "it is above the value of the plan, so it cannot be a lower bound".to_owned();
                violations.push(Violation { rule: Rule::Bound, place: claimed.bound.clone(), message });
            }
        }
        if violations.is_empty() {
            Ok(Verdict { score, lower_bound, verified_lower_bound })
        } else {
            Err(violations)
        }
    }

    /// Whether the embedded problem is `real`, which was made anew from the sources, whose fingerprints are `sources`.
    pub fn check_against(&self, real: &Problem, sources: &[Source]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut add = |rule, place: &str, message: &str| {
            violations.push(Violation { rule, place: place.to_owned(), message: message.to_owned() });
        };
        for source in sources {
            let recorded = self.sources.iter().find(|recorded| recorded.role == source.role);
            if recorded.is_some_and(|recorded| recorded.sha256 != source.sha256) {
                add(Rule::Source, &source.role, "this is not the file that the plan was made from");
            }
        }
        let (claimed, real) = (comparable(&self.problem), comparable(real));
        if claimed.graph != real.graph {
            add(Rule::Problem, "graph", &first_difference(&claimed.graph, &real.graph));
        }
        if claimed.hardware != real.hardware {
            add(Rule::Problem, "hardware", "the embedded hardware differs from the real one");
        }
        if claimed.profile.classes != real.profile.classes {
            add(Rule::Problem, "costs", "the embedded costs differ from the real ones");
        }
        if let Some(message) = dropped(&real.constraints, &claimed.constraints) {
            add(Rule::Problem, "constraints", &message);
        }
        violations
    }
}

/// A constraint of the real problem that the claimed one does not have; more than the real ones are no cheat.
fn dropped(real: &ConstraintsSpec, claimed: &ConstraintsSpec) -> Option<String> {
    let pin = real.pin.iter().find(|(op, device)| claimed.pin.get(*op) != Some(device));
    let forbids =
        |op: &String, device| claimed.forbid.get(op).is_some_and(|devices| devices.contains(device));
    let forbid = real.forbid.iter().find(|(op, devices)| !devices.iter().all(|device| forbids(op, device)));
    let group = real.colocate.iter().find(|group| !claimed.colocate.contains(group));
    let is_kept =
        |device: &String, bytes: &u64| claimed.memory_limit.get(device).is_some_and(|own| own <= bytes);
    let limit = real.memory_limit.iter().find(|(device, bytes)| !is_kept(device, bytes));
    let missing = |what: &str, of: &str| format!("the real problem {what} `{of}`, the embedded one does not");
    (pin.map(|(op, _)| missing("pins", op)))
        .or_else(|| forbid.map(|(op, _)| missing("bans devices for", op)))
        .or_else(|| {
            group.map(|group| missing("keeps together with others", group.first().map_or("", |op| op)))
        })
        .or_else(|| {
            limit.map(|(device, _)| {
                format!("`{device}` has less memory in the real problem than in the embedded one")
            })
        })
        .or_else(|| {
            (real.memory_rule != claimed.memory_rule).then(|| "memory is counted differently".to_owned())
        })
        .or_else(|| {
            let fewer = real.min_splits.is_some_and(|least| claimed.min_splits.is_none_or(|own| own < least));
            let more = real.max_splits.is_some_and(|most| claimed.max_splits.is_none_or(|own| own > most));
            (fewer || more).then(|| "the real problem limits splits more than the embedded one".to_owned())
        })
        .or_else(|| {
            let differs = |real: &Option<String>, claimed: &Option<String>| real.is_some() && real != claimed;
            let ends = [(&real.input_at, &claimed.input_at), (&real.output_at, &claimed.output_at)];
            (ends.into_iter().any(|(real, claimed)| differs(real, claimed)))
                .then(|| "inputs or outputs are elsewhere in the real problem".to_owned())
        })
}

/// A problem as data, with classes by name: their order in a file means nothing.
fn comparable(problem: &Problem) -> ProblemSpec {
    let mut spec = problem.to_spec();
    spec.profile.classes.sort_by(|a, b| a.class.cmp(&b.class));
    if let Some(OwnHardware::Given(hardware)) = &mut spec.hardware {
        hardware.classes.sort_by(|a, b| a.name.cmp(&b.name));
    }
    spec
}

type Parts = (ProblemSpec, Plan, Claim, Vec<Certificate>, Vec<Source>, ReadOptions);

fn read_parts(top: &Item<'_, '_>) -> Option<Parts> {
    top.only(&[
        "divvy",
        "version",
        "planner",
        "found_by",
        "sources",
        "reading",
        "claim",
        "plan",
        "certificates",
        "history",
        "problem",
    ]);
    check_version_from(
        top,
        OLDEST,
        VERSION,
        "bounds and their evidence have other names now: make the plan anew",
    );
    let problem = top.required("problem").map(|item| problem_file::read(&item));
    let devices = match problem.as_ref().and_then(|problem| problem.hardware.as_ref()) {
        Some(OwnHardware::Given(hardware)) => Some(hardware.devices.len()),
        _ => None,
    };
    let plan = top.required("plan").filter(Item::is_table).and_then(|item| plan_pieces::read(&item, devices));
    let claim: Option<Claim> = top.required("claim").filter(Item::is_table).and_then(|item| typed(&item));
    let certificates = top.optional("certificates").map_or(Some(Vec::new()), |item| typed(&item));
    let sources = top.optional("sources").map_or(Some(Vec::new()), |item| typed(&item));
    let reading = top.optional("reading").map_or(Some(ReadOptions::default()), |item| typed(&item));
    let (plan, pieces) = plan?;
    let claim = Claim { pieces, ..claim? };
    Some((problem?, plan, claim, certificates?, sources?, reading?))
}

/// Whether two lists have the same pieces, those of each device in the same order.
fn same_pieces(claimed: &[Piece], real: &[Piece]) -> bool {
    let by_device = |pieces: &[Piece]| {
        let mut sorted: Vec<Piece> = pieces.to_vec();
        sorted.sort_by_key(|piece| piece.device);
        sorted
    };
    by_device(claimed) == by_device(real)
}

fn read_point(item: &Item<'_, '_>) -> Option<HistoryPoint> {
    // Files of before the steps had names hold three figures.
    let named = item.value().as_array().is_some_and(|list| list.len() > 3);
    let (seconds, value, lower_bound, by) = if named {
        typed(item)?
    } else {
        let (seconds, value, lower_bound) = typed(item)?;
        (seconds, value, lower_bound, None)
    };
    Some(HistoryPoint { seconds, value, lower_bound, by })
}

/// The problem of a plan file, which leaves nothing open.
fn embedded(mut spec: ProblemSpec) -> Result<Problem, divvy_core::input_error::InputErrors> {
    use divvy_core::input_error::{Code, InputError};
    let missing = |what: &str| {
        let place = format!("problem.{what}");
        InputError::new(Code::Missing, place, format!("a plan file states its {what}"), "make the plan anew")
    };
    let Some(OwnHardware::Given(hardware)) = spec.hardware.take() else {
        return Err(missing("hardware").into());
    };
    let objective = spec.objective.ok_or_else(|| missing("objective"))?;
    put_together(spec, *hardware, objective)
}

fn first_difference(claimed: &divvy_core::graph::GraphSpec, real: &divvy_core::graph::GraphSpec) -> String {
    fn differing<'a, T: PartialEq>(
        claimed: &'a [T],
        real: &[T],
        name: impl Fn(&'a T) -> &'a str,
    ) -> Option<&'a str> {
        claimed.iter().enumerate().find(|(i, one)| real.get(*i) != Some(one)).map(|(_, one)| name(one))
    }
    let op = differing(&claimed.ops, &real.ops, |op| &op.name).map(|name| format!("op `{name}`"));
    let tensor =
        || differing(&claimed.tensors, &real.tensors, |t| &t.name).map(|name| format!("tensor `{name}`"));
    let param =
        || differing(&claimed.params, &real.params, |p| &p.name).map(|name| format!("parameter `{name}`"));
    let what = op.or_else(tensor).or_else(param).unwrap_or_else(|| "the lists of ops or tensors".to_owned());
    format!("{what} differs from the real network")
}
