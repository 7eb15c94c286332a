//! Programs as data: columns, sparse rows, and costs to minimise.

/// A column of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Column(pub(crate) u32);

impl Column {
    /// Its index among the columns, and in solutions.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A linear expression: each column with its coefficient.
pub type Terms = Vec<(Column, f64)>;

/// A program: minimise Σ cost · column within the bounds of columns and rows.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(crate) costs: Vec<f64>,
    pub(crate) lower: Vec<f64>,
    pub(crate) upper: Vec<f64>,
    pub(crate) integer: Vec<bool>,
    pub(crate) rows: Rows,
}

/// Rows in the order in which they were added, as a compressed sparse matrix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) lower: Vec<f64>,
    pub(crate) upper: Vec<f64>,
    pub(crate) starts: Vec<i32>,
    pub(crate) columns: Vec<i32>,
    pub(crate) factors: Vec<f64>,
}

impl Rows {
    pub(crate) fn push(&mut self, lower: f64, terms: &[(Column, f64)], upper: f64) {
        self.starts.push(self.columns.len() as i32);
        self.lower.push(lower);
        self.upper.push(upper);
        let mut terms: Vec<(Column, f64)> = terms.to_vec();
        terms.sort_by_key(|(column, _)| *column);
        for (column, factor) in terms {
            // HiGHS requires every column at most once per row.
            match self.columns.last() {
                Some(&last)
                    if last == column.0 as i32
                        && self.starts.last() != Some(&(self.columns.len() as i32)) =>
                {
                    if let Some(sum) = self.factors.last_mut() {
                        *sum += factor;
                    }
                }
                _ => {
                    self.columns.push(column.0 as i32);
                    self.factors.push(factor);
                }
            }
        }
    }
}

impl Program {
    /// An empty program.
    pub fn new() -> Program {
        Program::default()
    }

    /// Adds a column with bounds and a cost.
    pub fn column(&mut self, lower: f64, upper: f64, cost: f64) -> Column {
        self.costs.push(cost);
        self.lower.push(lower);
        self.upper.push(upper);
        self.integer.push(false);
        Column(self.costs.len() as u32 - 1)
    }

    /// Adds a column that is 0 or 1, without cost.
    pub fn binary(&mut self) -> Column {
        let column = self.column(0.0, 1.0, 0.0);
        self.integer[column.index()] = true;
        column
    }

    /// Fixes a column to a value.
    pub fn fix(&mut self, column: Column, value: f64) {
        self.lower[column.index()] = value;
        self.upper[column.index()] = value;
    }

    /// Adds a row: lower ≤ Σ factor · column ≤ upper, where either bound may be infinite.
    pub fn row(&mut self, lower: f64, terms: &[(Column, f64)], upper: f64) {
        self.rows.push(lower, terms, upper);
    }

    /// Adds a row without an upper bound.
    pub fn at_least(&mut self, lower: f64, terms: &[(Column, f64)]) {
        self.row(lower, terms, f64::INFINITY);
    }

    /// Adds a row without a lower bound.
    pub fn at_most(&mut self, terms: &[(Column, f64)], upper: f64) {
        self.row(f64::NEG_INFINITY, terms, upper);
    }

    /// The number of columns.
    pub fn column_count(&self) -> usize {
        self.costs.len()
    }

    /// The number of rows.
    pub fn row_count(&self) -> usize {
        self.rows.lower.len()
    }

    /// The number of coefficients in all rows.
    pub fn factor_count(&self) -> usize {
        self.rows.factors.len()
    }

    /// The linear relaxation: the same program without integrality.
    pub fn relaxed(&self) -> Program {
        Program { integer: vec![false; self.integer.len()], ..self.clone() }
    }

    /// The largest violation of a bound, a row or integrality by `values`; for tests and debug assertions.
    pub fn violation(&self, values: &[f64]) -> f64 {
        let outside = |value: f64, lower: f64, upper: f64| (lower - value).max(value - upper).max(0.0);
        let mut worst: f64 = 0.0;
        for (i, &value) in values.iter().enumerate() {
            worst = worst.max(outside(value, self.lower[i], self.upper[i]));
            if self.integer[i] {
                worst = worst.max((value - value.round()).abs());
            }
        }
        let rows = &self.rows;
        for row in 0..rows.lower.len() {
            let end = rows.starts.get(row + 1).map_or(rows.columns.len(), |&end| end as usize);
            let terms = rows.starts[row] as usize..end;
            let sum: f64 = terms.map(|k| rows.factors[k] * values[rows.columns[k] as usize]).sum();
            worst = worst.max(outside(sum, rows.lower[row], rows.upper[row]));
        }
        worst
    }
}
