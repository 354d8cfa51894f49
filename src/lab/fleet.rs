//! The instances of one run: started, held until all are connected, let go together, and ended.
//!
//! The fleet owns its processes. Each of them ends when it is dropped, and when this process ends in any way, because
//! its standard input ends then.

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use seckill_model::{Reason, reason};
use tokio::{
    io::{self, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Take},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{
    LabError, Result,
    parent::{Assignment, GO, MARK, Report, Role, Served},
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
pub(crate) struct Fleet {
    instances: Vec<Member>,
    /// Serves the requests that hold a lock when an incident happens.
    holder: Option<Member>,
}

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
        let mut fleet = Self { instances: Vec::new(), holder: None };
        for assignment in assignments {
            let member = Member::start(program, assignment.instance + 1)?;
            match assignment.role {
                Role::Hold => fleet.holder = Some(member),
                _ => fleet.instances.push(member),
            }
        }
        Ok(fleet)
    }

    /// All processes, the holder last.
    fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        self.instances.iter_mut().chain(&mut self.holder)
    }

    /// Gives out the assignments, and waits until all are connected.
    pub(crate) async fn connect(&mut self, assignments: &[Assignment]) -> Result<()> {
        for (member, assignment) in self.members().zip(assignments) {
            member.assign(assignment).await?;
        }
        for member in self.members() {
            match member.report(START_TIMEOUT).await? {
                Report::Ready => {}
                other => return Err(member.failed(other)),
            }
        }
        Ok(())
    }

    /// Lets the holder go until each of its requests stalls or is served. Returns what they have done.
    pub(crate) async fn hold(&mut self) -> Result<Vec<Served>> {
        let Some(holder) = &mut self.holder else { return Ok(Vec::new()) };
        holder.send(GO).await?;
        match holder.report(WORK_TIMEOUT).await? {
            Report::Holding(served) => Ok(served),
            other => Err(holder.failed(other)),
        }
    }

    /// Kills the holder.
    pub(crate) async fn kill_holder(&mut self) {
        if let Some(mut holder) = self.holder.take() {
            holder.kill().await;
        }
    }

    /// Stops the holder until the pause is dropped.
    pub(crate) fn pause_holder(&self) -> Result<Option<Paused>> {
        let Some(holder) = &self.holder else { return Ok(None) };
        let pid = holder.child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        let pid = pid.ok_or_else(|| ended(holder.number))?;
        let stopped = kill_process(pid, Signal::STOP);
        stopped.map_err(|error| LabError::pipe(holder.number, error))?;
        Ok(Some(Paused(pid)))
    }

    /// Lets the instances go together.
    pub(crate) async fn go(&mut self) -> Result<()> {
        for member in &mut self.instances {
            member.send(GO).await?;
        }
        Ok(())
    }

    /// Waits until all have served their requests.
    pub(crate) async fn served(&mut self) -> Result<Vec<Served>> {
        let mut all = Vec::new();
        for member in self.members() {
            match member.report(WORK_TIMEOUT).await? {
                Report::Done(served) => all.extend(served),
                other => return Err(member.failed(other)),
            }
        }
        Ok(all)
    }

    /// Ends all processes, whatever they do, and waits for their end.
    pub(crate) async fn end(&mut self) {
        for member in self.members() {
            member.input = None;
        }
        for member in self.members() {
            if timeout(END_TIMEOUT, member.child.wait()).await.is_err() {
                member.kill().await;
            }
        }
    }
}

/// A stopped process, which continues when this is dropped.
#[derive(Debug)]
pub(crate) struct Paused(Pid);

impl Drop for Paused {
    fn drop(&mut self) {
        // Not reaped while its member exists, so the PID is still its own.
        let _ = kill_process(self.0, Signal::CONT);
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
