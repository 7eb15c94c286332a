"""Fits how much of their rates ops reach, and how far estimates are off, from ops that were timed.

    .venv/bin/python scripts/fit_estimates.py             writes core/src/estimate/efficiencies.tsv, prints what was found
    .venv/bin/python scripts/fit_estimates.py --check     compares with what is there

The measured ops are in core/tests/data/measured_ops.tsv; the formula is that of core/src/estimate/mod.rs. The fit minimises the
mean |log(measured / estimated)|, every network of every class counting alike. The band is what covers nine of ten ops of each
class that was left out of the fit; of NVIDIA GPUs only one was measured, so networks are left out, and the band holds for that
class alone.
"""

import argparse
import collections
import math
import pathlib
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEASURED = ROOT / "core/tests/data/measured_ops.tsv"
TABLE = ROOT / "core/src/estimate/efficiencies.tsv"
LEFT_OUT = ROOT / "core/tests/data/left_out.tsv"
GROUPS = ["convolution", "thin-convolution", "product", "pool", "reduction", "copy", "element"]
# Peak rate of the narrowest x86 class, to which wider ones are compared.
ONE_CORE = {"x86": 134.4e9}
LIMITS = (0.02, 100.0)

PRODUCTS = """gemm matmul linear addmm mm bmm baddbmm dense fullyconnected qgemm qlinear qlinearmatmul matmulinteger matmulnbits
    fusedmatmul fusedgemm einsum attention multiheadattention scaleddotproductattention groupqueryattention lstm gru
    rnn""".split()
COPIES = """cat concat transpose permute contiguous reshape view flatten to cast index indexselect gather gathernd gatherelements
    scatter scatternd scatterelements slice split chunk expand tile pad squeeze unsqueeze identity dropout embedding clone copy
    arange stack spacetodepth depthtospace getitem constantofshape shape""".split()
REDUCTIONS = "mean sum cumsum amax amin argmax argmin topk var std softmax logsoftmax max min".split()
POOLS = "lrn resize upsample interpolate gridsample roialign localresponsenorm".split()


def plain_group(kind):
    name = kind.split("::")[-1].removeprefix("torch.ops.").removeprefix("aten.").split(".")[0].split(" ")[0]
    name = "".join(c for c in name if c.isalnum()).lower()
    if "conv" in name and not name.startswith("convert"):
        return "convolution"
    if name in PRODUCTS:
        return "product"
    if "pool" in name or name in POOLS:
        return "pool"
    if "norm" in name or name.startswith("reduce") or name in REDUCTIONS:
        return "reduction"
    return "copy" if name in COPIES else "element"


def group(kind, flops, made):
    """As core/src/estimate/op_group.rs has it."""
    groups = [plain_group(part) for part in kind.split("+")]
    found = next((one for one in ("convolution", "product") if one in groups), groups[0])
    thin = found == "convolution" and flops is not None and flops < 13 * made
    return "thin-convolution" if thin else found


def read():
    """The classes by name, and everything that was measured."""
    classes, measured = {}, []
    for line in MEASURED.read_text().splitlines():
        if line.startswith("#"):
            continue
        fields = line.split("\t")
        if fields[0] == "class":
            peaks = {name: float(rate) for name, rate in (one.split("=") for one in fields[5].split(","))}
            classes[fields[1]] = {"family": fields[2], "bandwidth": float(fields[3]), "launch": float(fields[4]), "peak": peaks}
            continue
        name, network, number_format, _, us, ops = fields
        of = classes[name]
        peak = of["peak"].get(number_format, of["peak"]["fp32"])
        demands = []
        for op in ops.split(";"):
            kind, flops, size, made = op.rsplit(":", 3)
            flops = float(flops) if flops else None
            demands.append((group(kind, flops, float(made)), (flops or 0) / peak * 1e6, float(size) / of["bandwidth"] * 1e6))
        key = (network, ops)
        measured.append({"class": name, "network": network, "key": key, "us": float(us), "ops": demands})
    return classes, measured


class Samples:
    """What was measured, as arrays."""

    def __init__(self, measured, classes):
        self.starts, flat, width, launch = [], [], [], []
        for one in measured:
            of = classes[one["class"]]
            one_core = ONE_CORE.get(of["family"])
            self.starts.append(len(flat))
            flat += one["ops"]
            width += [max(1.0, of["peak"]["fp32"] / one_core) if one_core else 1.0] * len(one["ops"])
            launch += [of["launch"]] * len(one["ops"])
        self.group = numpy.array([GROUPS.index(name) for name, _, _ in flat])
        width = numpy.array(width)
        self.launch = numpy.array(launch) * numpy.sqrt(width)
        self.arithmetic = numpy.array([us for _, us, _ in flat]) * numpy.sqrt(numpy.sqrt(width))
        self.memory = numpy.array([us for _, _, us in flat])
        self.us = numpy.array([one["us"] for one in measured])
        ops = collections.Counter((one["class"], one["network"]) for one in measured)
        networks = collections.Counter(name for name, _ in ops)
        weights = [1 / ops[one["class"], one["network"]] / networks[one["class"]] for one in measured]
        self.weights = numpy.array(weights) / sum(weights)

    def estimates(self, figures):
        arithmetic, memory, launches = figures[:, self.group]
        longer = numpy.maximum(arithmetic * self.arithmetic, memory * self.memory)
        return numpy.add.reduceat(launches * self.launch + longer, self.starts)

    def loss(self, figures):
        return float((self.weights * numpy.abs(numpy.log(self.us / self.estimates(figures)))).sum())


def fit(samples):
    """Coordinate descent: each figure up or down by a factor that gets smaller."""
    figures = numpy.array([[1.5], [1.0], [2.0]]) * numpy.ones((3, len(GROUPS)))
    best, step = samples.loss(figures), 2.0
    while step > 1.02:
        improved = False
        for at in numpy.ndindex(figures.shape):
            for factor in (step, 1 / step):
                old = figures[at]
                figures[at] = min(max(old * factor, LIMITS[0]), LIMITS[1])
                loss = samples.loss(figures)
                if loss < best - 1e-7:
                    best, improved = loss, True
                else:
                    figures[at] = old
        if not improved:
            step = math.sqrt(step)
    # What decides no estimate is not known, and is left as the data sheet has it.
    for at in numpy.ndindex(figures.shape):
        changed = figures.copy()
        changed[at] = 1.0
        if abs(samples.loss(changed) - best) < 1e-9:
            figures = changed
    return numpy.round(figures, 3)


def band(ratios):
    return numpy.quantile(ratios, [0.05, 0.95])


def left_out(measured, classes, key):
    """For each value of `key`: measured over estimated, the totals' ratio, and the figures, fitted without it."""
    found = {}
    for value in sorted({one[key] for one in measured}):
        rest = Samples([one for one in measured if one[key] != value], classes)
        own = Samples([one for one in measured if one[key] == value], classes)
        figures = fit(rest)
        estimates = own.estimates(figures)
        found[value] = (own.us / estimates, own.us.sum() / estimates.sum(), figures)
    return found


def longest(one):
    return sum(max(arithmetic, memory) for _, arithmetic, memory in one["ops"])


def scaled(measured, classes):
    """For each class: measured over what was carried over from every other, by the ratio of data sheets alone."""
    times = collections.defaultdict(dict)
    for one in measured:
        times[one["class"]][one["key"]] = one
    found = collections.defaultdict(list)
    for to, own in times.items():
        for source, others in times.items():
            for key in own.keys() & others.keys() if source != to else ():
                one, other = own[key], others[key]
                beyond = max(0.0, other["us"] - classes[source]["launch"])
                carried = classes[to]["launch"] + beyond * longest(one) / max(longest(other), 1e-9)
                found[to].append(one["us"] / carried)
    return found


def outward(low, high):
    """Two digits, rounded so that the band does not get narrower."""

    def digits(value, rounding):
        scale = 10 ** (1 - math.floor(math.log10(value)))
        return rounding(value * scale) / scale

    return digits(low, math.floor), digits(high, math.ceil)


def rows(family, figures):
    return ["\t".join(["op", family, name] + [f"{one:g}" for one in figures[:, i]]) for i, name in enumerate(GROUPS)]


def left_out_lines(family, found):
    one_core = [f"one-core\t{family}\t{ONE_CORE[family]:.0f}"] if family in ONE_CORE else []
    return [f"{name}\t{row}" for name, (*_, figures) in found.items() for row in rows(family, figures) + one_core]


def report(name, ratios, total, _):
    low, middle, high = numpy.quantile(ratios, [0.05, 0.5, 0.95])
    print(f"  {name:22} {len(ratios):5} measurements  {low:5.2f} {middle:5.2f} {high:5.2f}   all together {total:5.2f}")


def table(classes, measured):
    lines = [
        "# Written by scripts/fit_estimates.py from core/tests/data/measured_ops.tsv; do not edit.",
        "# op: family, group of ops, how many times longer than by the data sheet: arithmetic, traffic, launches",
        "# one-core: family, the peak rate (operations/s) that wider classes are compared with",
        "# band: family, origin, class or *, nine of ten times turn out so many times as long: from, to",
    ]
    left = ["# Written by scripts/fit_estimates.py: what was left out, and the figures fitted without it, as in efficiencies.tsv"]
    for family in sorted({of["family"] for of in classes.values()}):
        own = [one for one in measured if classes[one["class"]]["family"] == family]
        figures = fit(Samples(own, classes))
        lines += rows(family, figures)
        if family in ONE_CORE:
            lines.append(f"one-core\t{family}\t{ONE_CORE[family]:.0f}")
        names = sorted({one["class"] for one in own})
        print(f"{family}: measured over estimated, 5 %, median and 95 %, of what was left out of the fit")
        if len(names) > 1:
            found = left_out(own, classes, "class")
            bands = [band(ratios) for ratios, *_ in found.values()]
            low, high = outward(min(one[0] for one in bands), max(one[1] for one in bands))
            lines.append(f"band\t{family}\testimated\t*\t{low:g}\t{high:g}")
            carried = scaled(own, classes)
            bands = [band(ratios) for ratios in carried.values()]
            low, high = outward(min(one[0] for one in bands), max(one[1] for one in bands))
            lines.append(f"band\t{family}\tscaled\t*\t{low:g}\t{high:g}")
        else:
            found = left_out(own, classes, "network")
            low, high = outward(*band(numpy.concatenate([ratios for ratios, *_ in found.values()])))
            lines.append(f"band\t{family}\testimated\t{names[0]}\t{low:g}\t{high:g}")
        left += left_out_lines(family, found)
        for name, one in found.items():
            report(name, *one)
    return "\n".join(lines) + "\n", "\n".join(left) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where the table is not what comes out")
    options = parser.parse_args()
    classes, measured = read()
    for path, text in zip((TABLE, LEFT_OUT), table(classes, measured)):
        if not options.check:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"{path} is not what comes out")
    print(TABLE.read_text())


if __name__ == "__main__":
    main()
