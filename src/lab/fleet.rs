//! The instances of one run: started, held until all are connected, let go together, and ended.
//!
//! The fleet owns its processes. Each of them ends when it is dropped, and when this process ends in any way, because
//! its standard input ends then.

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use seckill_model::{Reason, reason};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines, Take},
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
const WORK_TIMEOUT: Duration = Duration::from_mins(5);
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
    /// Serves the requests that hold a lock when a disruption happens.
    holder: Option<Member>,
}

#[derive(Debug)]
struct Member {
    /// From 1.
    number: u32,
    child: Child,
    /// Ends the instance when it is dropped.
    input: Option<ChildStdin>,
    lines: Lines<BufReader<Take<ChildStdout>>>,
}

impl Fleet {
    /// Starts one process for each assignment. One that is not an instance of the work is the holder.
    pub(crate) fn start(program: &Program, assignments: &[Assignment]) -> Result<Self> {
        let mut fleet = Self { instances: Vec::new(), holder: None };
        for assignment in assignments {
            let member = Member::start(program, assignment.instance + 1)?;
            if assignment.instance < assignment.work.instances {
                fleet.instances.push(member);
            } else {
                fleet.holder = Some(member);
            }
        }
        Ok(fleet)
    }

    /// Gives out the assignments, and waits until all are connected.
    pub(crate) async fn connect(&mut self, assignments: &[Assignment]) -> Result<()> {
        let mut members: Vec<&mut Member> =
            self.instances.iter_mut().chain(&mut self.holder).collect();
        for (member, assignment) in members.iter_mut().zip(assignments) {
            let line = serde_json::to_string(assignment);
            member.send(&line.map_err(|error| LabError::pipe(member.number, error))?).await?;
        }
        for member in members {
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
    pub(crate) async fn kill_holder(&mut self) -> Result<()> {
        if let Some(mut holder) = self.holder.take() {
            let number = holder.number;
            holder.child.kill().await.map_err(|error| LabError::pipe(number, error))?;
        }
        Ok(())
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
        for member in self.instances.iter_mut().chain(&mut self.holder) {
            match member.report(WORK_TIMEOUT).await? {
                Report::Done(served) => all.extend(served),
                other => return Err(member.failed(other)),
            }
        }
        Ok(all)
    }

    /// Ends all processes, whatever they do, and waits for their end.
    pub(crate) async fn end(&mut self) {
        let mut members: Vec<&mut Member> =
            self.instances.iter_mut().chain(&mut self.holder).collect();
        for member in &mut members {
            member.input = None;
        }
        for Member { number, child, .. } in members {
            if timeout(END_TIMEOUT, child.wait()).await.is_err()
                && let Err(error) = child.kill().await
            {
                tracing::warn!(%error, number, "an instance of the lab was not killed");
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
    fn start(program: &Program, number: u32) -> Result<Self> {
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
        Ok(Self { number, child, input, lines: BufReader::new(output.take(MAX_OUTPUT)).lines() })
    }

    async fn send(&mut self, line: &str) -> Result<()> {
        let number = self.number;
        let input = self.input.as_mut().ok_or_else(|| ended(number))?;
        let line = format!("{line}\n");
        let sent = timeout(START_TIMEOUT, input.write_all(line.as_bytes())).await;
        sent.map_err(|_| late(number, START_TIMEOUT))?
            .map_err(|error| LabError::pipe(number, error))
    }

    async fn report(&mut self, limit: Duration) -> Result<Report> {
        let number = self.number;
        let reading = async {
            while let Some(line) =
                self.lines.next_line().await.map_err(|error| LabError::pipe(number, error))?
            {
                if let Some(report) = line.strip_prefix(MARK) {
                    return serde_json::from_str(report)
                        .map_err(|error| LabError::pipe(number, error));
                }
            }
            Err(ended(number))
        };
        timeout(limit, reading).await.map_err(|_| late(number, limit))?
    }

    fn failed(&self, report: Report) -> LabError {
        match report {
            Report::Failed(why) => LabError::Instance(self.number, why),
            _ => ended(self.number),
        }
    }
}

fn ended(number: u32) -> LabError {
    LabError::Instance(number, Reason::from(seckill_model::Label("lab-instance-ended")))
}

fn late(number: u32, limit: Duration) -> LabError {
    LabError::Instance(number, reason!("lab-instance-late", seconds = limit.as_secs()))
}
