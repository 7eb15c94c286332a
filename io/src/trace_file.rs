//! Trace files: what happened when in a run that was measured. Names are those of the problem that was planned.

use std::cell::RefCell;
use std::collections::HashMap;

use divvy_core::did_you_mean::closest;
use divvy_core::ids::{LinkId, ParamId, TensorId};
use divvy_core::input_error::Code;
use divvy_core::problem::Problem;
use divvy_core::score::{Activity, Lane, Span, Trace};
use serde_json::Value;

use crate::Error;
use crate::file::Loaded;
use crate::problem_file::check_version;
use crate::reader::Item;

/// Reads a trace of a run of `problem`; every fault is reported.
pub fn read(loaded: &Loaded, problem: &Problem) -> Result<Trace, Error> {
    let value = loaded.parse()?;
    let errors = RefCell::default();
    let top = Item::top(&value, "", &errors);
    if value.get("divvy").and_then(Value::as_str) == Some("trace") {
        top.only(&["divvy", "version", "spans"]);
        check_version(&top);
    } else {
        top.fault(
            Code::Format,
            "this is not a trace file",
            "see docs/formats.md#trace-files for what one holds",
        );
    }
    let names = Names::new(problem);
    let spans = match top.optional("divvy").and_then(|_| top.required("spans")) {
        Some(list) => list.each(|item| span(item, &names)),
        None => Vec::new(),
    };
    let errors = errors.into_inner();
    if errors.is_empty() {
        Ok(Trace { spans })
    } else {
        Err(Error::Input { path: loaded.path.clone(), errors })
    }
}

/// What a trace may name.
struct Names<'a> {
    problem: &'a Problem,
    tensors: HashMap<&'a str, TensorId>,
    params: HashMap<&'a str, ParamId>,
    links: HashMap<&'a str, LinkId>,
}

impl<'a> Names<'a> {
    fn new(problem: &'a Problem) -> Names<'a> {
        let graph = &problem.graph;
        let links = problem.hardware.links().iter().enumerate();
        Names {
            problem,
            tensors: graph.tensors().map(|tensor| (graph.tensor_name(tensor), tensor)).collect(),
            params: graph.params().map(|param| (graph.param_name(param), param)).collect(),
            links: links.map(|(i, link)| (link.name.as_str(), LinkId::new(i))).collect(),
        }
    }
}

fn span(item: &Item<'_, '_>, names: &Names<'_>) -> Option<Span> {
    item.only(&["op", "device", "inputs", "tensor", "param", "link", "to", "start", "end"]);
    let (start, end) = (item.required("start"), item.required("end"));
    let (start, end) = (start?.microseconds()?, end?.microseconds()?);
    if end < start {
        item.fault(Code::Range, "it ends before it starts", "give `start` and `end` in microseconds");
        return None;
    }
    let problem = names.problem;
    let device = |key: &str| -> Option<_> {
        let named = item.required(key)?;
        let name = named.text()?;
        let found = problem.hardware.device_named(name);
        if found.is_none() {
            let known: Vec<&str> =
                problem.hardware.devices().map(|d| problem.hardware.device_name(d)).collect();
            unknown(&named, "device", name, &known);
        }
        found
    };
    let (lane, what) = if item.optional("param").is_some() {
        let (param, link) = (item.required("param")?, item.required("link")?);
        let (param_name, link_name) = (param.text()?, link.text()?);
        let to = device("to")?;
        let (Some(&found), Some(&on)) = (names.params.get(param_name), names.links.get(link_name)) else {
            let message = format!("there is no parameter `{param_name}`, or no link `{link_name}`");
            item.fault(Code::Dangling, message, "use the names of the problem that was planned");
            return None;
        };
        (Lane::Link(on), Activity::Param(found, to))
    } else if item.optional("tensor").is_some() {
        let (tensor, link) = (item.required("tensor")?, item.required("link")?);
        let (tensor_name, link_name) = (tensor.text()?, link.text()?);
        let to = device("to")?;
        let (Some(&found), Some(&on)) = (names.tensors.get(tensor_name), names.links.get(link_name)) else {
            let message = format!("there is no tensor `{tensor_name}`, or no link `{link_name}`");
            item.fault(Code::Dangling, message, "use the names of the problem that was planned");
            return None;
        };
        (Lane::Link(on), Activity::Tensor(found, to))
    } else {
        let named = item.required("op")?;
        let name = named.text()?;
        let inputs = item.optional("inputs").map_or(Some(1), |inputs| inputs.small())?;
        let device = device("device")?;
        let Some(op) = problem.graph.op_named(name) else {
            unknown(&named, "op", name, &[]);
            return None;
        };
        (Lane::Device(device), Activity::Op(op, inputs))
    };
    Some(Span { lane, what, start, end })
}

fn unknown(item: &Item<'_, '_>, what: &str, name: &str, known: &[&str]) {
    let near = closest(name, known).map(|near| format!("did you mean `{near}`?"));
    let fix = near.unwrap_or_else(|| "use the names of the problem that was planned".to_owned());
    item.fault(Code::Dangling, format!("there is no {what} `{name}`"), fix);
}
