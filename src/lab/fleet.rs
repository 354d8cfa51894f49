//! The instances of one run: started, held until all are connected, let go together, and ended.
//!
//! The fleet owns its processes. Each of them ends when it is dropped, and when this process ends in any way, because
//! its standard input ends then.

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use seckill_model::{Reason, reason};
use tokio::{
    io::{self, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Take},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{
    LabError, Result,
    instance::{Assignment, GO, MARK, Report, Served},
};

/// Timeout for an instance to connect.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for an instance to serve its requests: the longest work, and slow machines.
pub(crate) const WORK_TIMEOUT: Duration = Duration::from_mins(5);
/// Timeout for an instance to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest output of an instance: the traces of the most requests.
const MAX_OUTPUT: u64 = 1 << 30;

/// The program that runs an instance: this one, with the arguments that make it call [`crate::instance::run`].
#[derive(Clone, Debug)]
pub struct Program {
    /// Its path.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// The processes of one run.
#[derive(Debug)]
pub(crate) struct Fleet(Vec<Member>);

/// One process.
#[derive(Debug)]
pub(crate) struct Member {
    /// From 1.
    number: u32,
    child: Child,
    /// Ends the instance when it is dropped.
    input: Option<ChildStdin>,
    /// `None` if they were taken.
    lines: Option<Lines>,
}

/// What a process writes.
#[derive(Debug)]
pub(crate) struct Lines {
    number: u32,
    lines: io::Lines<BufReader<Take<ChildStdout>>>,
}

impl Lines {
    /// The next report; `None` at the end of the process.
    pub(crate) async fn next(&mut self) -> Result<Option<Report>> {
        let number = self.number;
        let pipe = |error| LabError::pipe(number, error);
        while let Some(line) = self.lines.next_line().await.map_err(pipe)? {
            if let Some(report) = line.strip_prefix(MARK) {
                let report = serde_json::from_str(report);
                return report.map(Some).map_err(|error| LabError::pipe(number, error));
            }
        }
        Ok(None)
    }
}

impl Fleet {
    /// Starts one process for each assignment.
    pub(crate) fn start(program: &Program, assignments: &[Assignment]) -> Result<Self> {
        assignments
            .iter()
            .map(|it| Member::start(program, it.instance + 1))
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Gives out the assignments, waits until all are connected, and then until all have served their requests.
    pub(crate) async fn work(&mut self, assignments: &[Assignment]) -> Result<Vec<Served>> {
        for (member, assignment) in self.0.iter_mut().zip(assignments) {
            member.assign(assignment).await?;
        }
        for member in &mut self.0 {
            match member.report(START_TIMEOUT).await? {
                Report::Ready => {}
                other => return Err(member.failed(other)),
            }
        }
        for member in &mut self.0 {
            member.send(GO).await?;
        }
        let mut all = Vec::new();
        for member in &mut self.0 {
            match member.report(WORK_TIMEOUT).await? {
                Report::Done(served) => all.extend(served),
                other => return Err(member.failed(other)),
            }
        }
        Ok(all)
    }

    /// Ends all processes, whatever they do, and waits for their end.
    pub(crate) async fn end(&mut self) {
        for member in &mut self.0 {
            member.input = None;
        }
        for member in &mut self.0 {
            if timeout(END_TIMEOUT, member.child.wait()).await.is_err() {
                member.kill().await;
            }
        }
    }
}

impl Member {
    pub(crate) fn start(program: &Program, number: u32) -> Result<Self> {
        let mut child = Command::new(&program.path)
            .args(&program.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C in the terminal is for this process only, which then ends the instances.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| LabError::pipe(number, error))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| ended(number))?;
        let lines = BufReader::new(output.take(MAX_OUTPUT)).lines();
        Ok(Self { number, child, input, lines: Some(Lines { number, lines }) })
    }

    /// From 1.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// What it writes, for a reader of its own.
    pub(crate) fn take_lines(&mut self) -> Option<Lines> {
        self.lines.take()
    }

    pub(crate) async fn assign(&mut self, assignment: &Assignment) -> Result<()> {
        let line = serde_json::to_string(assignment);
        self.send(&line.map_err(|error| LabError::pipe(self.number, error))?).await
    }

    /// Kills the process with SIGKILL, and waits for its end.
    pub(crate) async fn kill(&mut self) {
        if let Err(error) = self.child.kill().await {
            let number = self.number;
            tracing::warn!(%error, number, "an instance of the lab was not killed");
        }
    }

    pub(crate) async fn send(&mut self, line: &str) -> Result<()> {
        let number = self.number;
        let input = self.input.as_mut().ok_or_else(|| ended(number))?;
        let line = format!("{line}\n");
        let sent = timeout(START_TIMEOUT, input.write_all(line.as_bytes())).await;
        sent.map_err(|_| late(number, START_TIMEOUT))?
            .map_err(|error| LabError::pipe(number, error))
    }

    async fn report(&mut self, limit: Duration) -> Result<Report> {
        let number = self.number;
        let lines = self.lines.as_mut().ok_or_else(|| ended(number))?;
        let report = timeout(limit, lines.next()).await.map_err(|_| late(number, limit))??;
        report.ok_or_else(|| ended(number))
    }

    pub(crate) fn failed(&self, report: Report) -> LabError {
        match report {
            Report::Failed(why) => LabError::Instance(self.number, why),
            _ => ended(self.number),
        }
    }
}

pub(crate) fn ended(number: u32) -> LabError {
    LabError::Instance(number, Reason::from(seckill_model::Label("lab-instance-ended")))
}

pub(crate) fn late(number: u32, limit: Duration) -> LabError {
    LabError::Instance(number, reason!("lab-instance-late", seconds = limit.as_secs()))
}
