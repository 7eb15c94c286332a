//! Charts as SVG text: lines over linear or logarithmic axes, grouped bars, heat maps, timelines.
//!
//! A chart is plain data with one method, `svg`, that draws it. The picture stands by itself: no script, no font and no
//! file beside it, and colours that follow the reader's light or dark scheme, also where it is shown as an image. What
//! cannot be drawn (a missing figure, or zero on a logarithmic axis) is left out and the rest is drawn; without any point
//! the chart says that there is nothing to show.
//!
//! ```
//! use divvy_io::svg::{Axis, LineChart, Series};
//! let chart = LineChart::new("Value over time", Axis::log("seconds"), Axis::linear("ms"))
//!     .with(Series::new("auto", [(0.01, 12.0), (0.5, 9.5), (8.0, 9.1)]).stepped())
//!     .with(Series::new("bound of auto", [(0.01, 8.0), (8.0, 9.0)]).stepped().dashed().in_colour_of(0));
//! assert!(chart.svg().starts_with("<svg"));
//! ```

mod axis;
mod bars;
mod canvas;
mod heat_map;
mod lanes;
mod line_chart;
pub(crate) mod markup;

pub use axis::Axis;
pub use bars::BarChart;
pub use heat_map::{HeatMap, RatioLine};
pub use lanes::{BusyLane, LaneChart};
pub use line_chart::{LineChart, Series};
