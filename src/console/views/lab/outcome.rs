//! What came of one design on one database.

use std::collections::{BTreeMap, BTreeSet};

use ratatui::style::Style;
use seckill_lab::{DesignReport, Incident, Promise, Timeline, Verdict};
use seckill_model::Label;

use crate::theme::{Theme, glyphs};

/// The results of a design: one for each work of its question, the one without an incident first.
pub(super) struct Outcome<'a> {
    pub(super) first: &'a DesignReport,
    pub(super) all: Vec<&'a DesignReport>,
    /// Its runs: with each seed in each work.
    pub(super) runs: usize,
}

impl<'a> Outcome<'a> {
    /// `None` without a result.
    pub(super) fn new(all: Vec<&'a DesignReport>, runs: usize) -> Option<Self> {
        Some(Self { first: all.first()?, all, runs })
    }

    /// Runs that are done.
    pub(super) fn done(&self) -> usize {
        self.all.iter().map(|it| it.runs.len()).sum()
    }

    /// The sign of the verdict: a broken promise is certain at once, a kept one only after all runs.
    pub(super) fn sign(&self, theme: Theme) -> (&'static str, Style) {
        if self.is_unexpected() {
            (glyphs::CROSS, theme.bad)
        } else if !self.broken().is_empty() {
            (glyphs::CROSS, theme.broken)
        } else if self.done() < self.runs {
            (glyphs::MOVING, theme.accent)
        } else {
            (glyphs::CHECK, theme.good)
        }
    }

    /// In how many seeds it broke each promise that it broke, in whichever work.
    pub(super) fn broken(&self) -> BTreeMap<Promise, usize> {
        let mut seeds: BTreeMap<Promise, BTreeSet<u64>> = BTreeMap::new();
        for run in self.all.iter().flat_map(|it| &it.runs) {
            for promise in &run.verdict.broken {
                seeds.entry(*promise).or_default().insert(run.seed);
            }
        }
        seeds.into_iter().map(|(promise, seeds)| (promise, seeds.len())).collect()
    }

    /// The incidents in which it broke a promise.
    pub(super) fn incidents(&self, promise: Promise) -> Vec<&'static str> {
        let breaks = self.all.iter().filter(|it| it.broken.contains_key(&promise));
        let calm = Label("lab-view-calm");
        breaks.map(|it| it.incident.map_or(calm, Incident::title).read()).collect()
    }

    /// Whether it broke a promise that it keeps.
    pub(super) fn is_unexpected(&self) -> bool {
        self.all.iter().any(|it| !it.unexpected.is_empty())
    }

    /// The median of a figure, of the work in which it is highest.
    pub(super) fn median(&self, figure: fn(&Verdict) -> u64) -> u64 {
        self.all.iter().map(|it| it.median(figure)).max().unwrap_or_default()
    }

    /// The timelines of all broken promises, each with its result.
    pub(super) fn timelines(&self) -> Vec<(&'a DesignReport, &'a Timeline)> {
        let of = |it: &&'a DesignReport| {
            let result = *it;
            result.timelines.iter().map(move |timeline| (result, timeline))
        };
        self.all.iter().flat_map(of).collect()
    }
}
