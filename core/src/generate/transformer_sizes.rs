//! Sizes of transformers: those of published networks, those that the options ask for, and what is wrong with them.
//!
//! Sources: the papers that `transformer` names, and the configuration files published with the networks.

use super::options::{MOST_OPS, check_range, check_size, choose};
use crate::input_error::{Code, InputErrors};

/// What [`gpt`](super::gpt) and [`llama`](super::llama) make. Sizes that are left open are those of the named network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransformerOptions {
    /// A published network. `gpt`: `gpt2` (also if none is named), `gpt2-large`, `gpt2-xl`, `gpt3`. `llama`:
    /// `open-llama-3b` (also if none is named), `open-llama-7b`. Case, hyphens and underscores do not matter.
    pub name: Option<String>,
    /// Number of layers.
    pub layers: Option<u32>,
    /// Width of the network.
    pub hidden: Option<u32>,
    /// Attention heads.
    pub heads: Option<u32>,
    /// Heads of keys and values, `llama` only; as many as `heads` if not given.
    pub kv_heads: Option<u32>,
    /// Width inside the feed-forward part. For `gpt`, four times `hidden` if not given.
    pub intermediate: Option<u32>,
    /// Number of tokens known.
    pub vocabulary: Option<u32>,
    /// Rows of the position embedding, `gpt` only.
    pub context: Option<u32>,
    /// Sequences in one input.
    pub batch: u32,
    /// New tokens of each sequence.
    pub sequence: u32,
    /// Tokens of each sequence whose keys and values are cached.
    pub past: u32,
}

impl Default for TransformerOptions {
    fn default() -> TransformerOptions {
        TransformerOptions {
            name: None,
            layers: None,
            hidden: None,
            heads: None,
            kv_heads: None,
            intermediate: None,
            vocabulary: None,
            context: None,
            batch: 1,
            sequence: 32,
            past: 0,
        }
    }
}

/// Sizes of a published network.
#[derive(Clone, Copy)]
struct Published {
    name: &'static str,
    layers: u32,
    hidden: u32,
    heads: u32,
    intermediate: u32,
    vocabulary: u32,
    context: u32,
}

const fn published_gpt(name: &'static str, layers: u32, hidden: u32, heads: u32, context: u32) -> Published {
    Published { name, layers, hidden, heads, intermediate: 4 * hidden, vocabulary: 50_257, context }
}

/// The GPTs, the default first.
const GPTS: [Published; 4] = [
    published_gpt("gpt2", 12, 768, 12, 1024),
    published_gpt("gpt2-large", 36, 1280, 20, 1024),
    published_gpt("gpt2-xl", 48, 1600, 25, 1024),
    published_gpt("gpt3", 96, 12_288, 96, 2048),
];

const fn published_llama(
    name: &'static str,
    layers: u32,
    hidden: u32,
    heads: u32,
    intermediate: u32,
) -> Published {
    Published { name, layers, hidden, heads, intermediate, vocabulary: 32_000, context: 2048 }
}

/// The LLaMAs, the default first.
const LLAMAS: [Published; 2] = [
    published_llama("open-llama-3b", 26, 3200, 32, 8640),
    published_llama("open-llama-7b", 32, 4096, 32, 11_008),
];

/// All sizes of a network, settled: each is in its range, heads divide the width, and no sum of theirs overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformerSizes {
    /// The published network, or `custom`.
    pub name: &'static str,
    /// Number of layers.
    pub layers: u32,
    /// Width of the network.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Heads of keys and values.
    pub kv_heads: u64,
    /// Width inside the feed-forward part.
    pub intermediate: u64,
    /// Number of tokens known.
    pub vocabulary: u64,
    /// Most positions.
    pub context: u64,
    /// Sequences in one input.
    pub batch: u64,
    /// New tokens of each sequence.
    pub sequence: u64,
    /// Tokens of each sequence whose keys and values are cached.
    pub past: u64,
}

impl TransformerSizes {
    /// The sizes of a network of the GPT family, or every fault of the options.
    pub fn gpt(options: &TransformerOptions) -> Result<TransformerSizes, InputErrors> {
        let (sizes, mut errors) = TransformerSizes::new(options, &GPTS)?;
        if options.kv_heads.is_some() {
            let fix = "leave it out, or generate a llama";
            errors.add(Code::Option, "--kv-heads", "gpt has one head of keys for each of queries", fix);
        }
        if sizes.keys() > sizes.context {
            let message = format!("{} tokens, and only {} positions are known", sizes.keys(), sizes.context);
            errors.add(Code::Range, "--sequence, --past", message, "shorten them, or raise --context");
        }
        errors.into_result(sizes)
    }

    /// The sizes of a network of the LLaMA family, or every fault of the options.
    pub fn llama(options: &TransformerOptions) -> Result<TransformerSizes, InputErrors> {
        let (sizes, mut errors) = TransformerSizes::new(options, &LLAMAS)?;
        if options.context.is_some() {
            let fix = "leave it out, or generate a gpt";
            errors.add(Code::Option, "--context", "llama has no table of positions", fix);
        }
        errors.into_result(sizes)
    }

    /// The sizes that `options` ask for and their faults, or the fault that leaves no sizes at all.
    fn new(
        options: &TransformerOptions,
        all: &[Published],
    ) -> Result<(TransformerSizes, InputErrors), InputErrors> {
        let names: Vec<(&str, Published)> = all.iter().map(|one| (one.name, *one)).collect();
        let base = match &options.name {
            Some(name) => choose("--name", name, &names)?,
            None => all[0],
        };
        let own_shape =
            [options.layers, options.hidden, options.heads, options.kv_heads, options.intermediate];
        let own_tables = [options.vocabulary, options.context];
        let changed = own_shape.iter().chain(&own_tables).any(Option::is_some);
        let heads = options.heads.unwrap_or(base.heads);
        let hidden = options.hidden.unwrap_or(base.hidden);
        // Published feed-forward widths belong to their own hidden width: another one keeps the proportion.
        let in_proportion = u64::from(hidden) * u64::from(base.intermediate) / u64::from(base.hidden);
        let sizes = TransformerSizes {
            name: if changed { "custom" } else { base.name },
            layers: options.layers.unwrap_or(base.layers),
            hidden: hidden.into(),
            heads: heads.into(),
            kv_heads: options.kv_heads.unwrap_or(heads).into(),
            intermediate: options.intermediate.map_or(in_proportion, u64::from),
            vocabulary: options.vocabulary.unwrap_or(base.vocabulary).into(),
            context: options.context.unwrap_or(base.context).into(),
            batch: options.batch.into(),
            sequence: options.sequence.into(),
            past: options.past.into(),
        };
        let mut errors = InputErrors::default();
        sizes.check(&mut errors);
        Ok((sizes, errors))
    }

    fn check(&self, errors: &mut InputErrors) {
        let least_and_most = [
            ("--layers", self.layers.into(), 1, 1 << 20),
            ("--hidden", self.hidden, 1, 1 << 20),
            ("--heads", self.heads, 1, 1 << 20),
            ("--kv-heads", self.kv_heads, 1, 1 << 20),
            ("--intermediate", self.intermediate, 1, 1 << 24),
            ("--vocabulary", self.vocabulary, 1, 1 << 24),
            ("--context", self.context, 1, 1 << 24),
            ("--batch", self.batch, 1, 1 << 20),
            ("--sequence", self.sequence, 1, 1 << 24),
            ("--past", self.past, 0, 1 << 24),
        ];
        for (option, value, least, most) in least_and_most {
            check_range(option, value, least, most, errors);
        }
        if !errors.is_empty() {
            return;
        }
        if !self.hidden.is_multiple_of(self.heads) {
            let message = format!("{} heads do not divide a width of {}", self.heads, self.hidden);
            errors.add(Code::Option, "--heads", message, "give a divisor of --hidden");
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            let message = format!("{} heads of keys do not divide {} heads", self.kv_heads, self.heads);
            errors.add(Code::Option, "--kv-heads", message, "give a divisor of --heads");
        }
        check_size("--layers", "ops", u64::from(self.layers) * 17 + 5, MOST_OPS, errors);
        self.check_volume(errors);
    }

    /// Reports sizes whose sums would leave the range of the integers; floats judge that well enough.
    fn check_volume(&self, errors: &mut InputErrors) {
        let [hidden, inner, vocabulary, rows, keys, heads, batch] = [
            self.hidden,
            self.intermediate,
            self.vocabulary,
            self.rows(),
            self.keys(),
            self.heads,
            self.batch,
        ]
        .map(|size| size as f64);
        let layers = f64::from(self.layers);
        let numbers = layers
            * (rows * (20.0 * hidden + 6.0 * inner + 6.0 * heads * keys) + batch * keys * hidden)
            + layers * hidden * (4.0 * hidden + 3.0 * inner)
            + (rows + hidden) * 2.0 * vocabulary;
        let flops = rows
            * (layers * 2.0 * hidden * (4.0 * hidden + 3.0 * inner + 2.0 * keys) + 2.0 * hidden * vocabulary);
        if numbers > 1e15 || flops > 1e18 {
            let message = format!("this network has {numbers:.1e} numbers and {flops:.1e} operations");
            let fix = "stay below 1e15 numbers and 1e18 operations";
            errors.add(Code::Range, "--layers, --hidden, --batch, --sequence", message, fix);
        }
    }

    /// What a network of these sizes is called: its name and its tokens.
    pub fn network_name(&self) -> String {
        let past = if self.past > 0 { format!("-past{}", self.past) } else { String::new() };
        format!("{}-{}x{}{past}", self.name, self.batch, self.sequence)
    }

    /// New tokens in all.
    pub fn rows(&self) -> u64 {
        self.batch * self.sequence
    }

    /// Tokens that each new one can attend to.
    pub fn keys(&self) -> u64 {
        self.past + self.sequence
    }

    /// Width of one head.
    pub fn head_width(&self) -> u64 {
        self.hidden / self.heads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_left_open_are_those_of_the_named_network() {
        let options = TransformerOptions {
            name: Some("gpt2_large".into()),
            hidden: Some(640),
            heads: Some(10),
            ..TransformerOptions::default()
        };
        let (sizes, errors) = TransformerSizes::new(&options, &GPTS).unwrap();
        assert!(errors.is_empty());
        assert_eq!((sizes.name, sizes.layers, sizes.intermediate, sizes.kv_heads), ("custom", 36, 2560, 10));
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let options = TransformerOptions { layers: Some(0), batch: 0, ..TransformerOptions::default() };
        let (_, errors) = TransformerSizes::new(&options, &LLAMAS).unwrap();
        let places: Vec<&str> = errors.kept().iter().map(|e| e.place.as_str()).collect();
        assert_eq!(places, ["--layers", "--batch"]);
    }

    #[test]
    fn the_largest_sizes_do_not_overflow() {
        let most = TransformerOptions {
            hidden: Some(u32::MAX),
            intermediate: Some(u32::MAX),
            batch: u32::MAX,
            sequence: u32::MAX,
            past: u32::MAX,
            ..TransformerOptions::default()
        };
        assert!(!TransformerSizes::new(&most, &GPTS).unwrap().1.is_empty());
    }
}
