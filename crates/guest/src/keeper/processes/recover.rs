//! Takes up the processes of the earlier keeper.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandyard_protocol::{EndReason, Exit, ProcessId};

use super::attach::EndGuard;
use super::process::{ManagedProcess, ProcessDescriptors};
use super::record::ProcessRecord;
use super::supervise::{KillScope, Supervision};
use super::table::Processes;
use crate::keeper::spool::SpoolError;
use crate::process_host::Survivor;

impl Processes {
    /// Takes up the processes of the earlier keeper: those that still run, and the exits of the others.
    pub(in crate::keeper) fn recover(
        self: &Arc<Self>,
        survivors: &mut BTreeMap<ProcessId, Survivor>,
    ) -> Result<(), SpoolError> {
        let mut records = Vec::new();
        for id in self.core.spool.processes()? {
            if let Some(record) = ProcessRecord::load(&self.core.spool.process(&id))? {
                records.push((id, record));
            }
        }
        // The table is ordered by start: `prune` removes the oldest first.
        records.sort_by_key(|(_, record)| record.number);
        for (id, record) in records {
            let survivor = survivors.remove(&id);
            let directory = self.core.spool.process(&id);
            self.recover_one(id, record, survivor)
                .map_err(|error| SpoolError::new("recover", &directory, error))?;
        }
        self.prune();
        Ok(())
    }

    fn recover_one(
        self: &Arc<Self>,
        id: ProcessId,
        record: ProcessRecord,
        survivor: Option<Survivor>,
    ) -> std::io::Result<()> {
        let output = ManagedProcess::open_output(&self.core.spool.process(&id))?;
        let (Some(Survivor { command, spawned, exit }), None) = (survivor, record.exit) else {
            // Never started, or ended and forgotten: nothing more than its record will ever be known.
            let lost = Exit { code: 137, signal: Some(9), reason: EndReason::Own };
            let exit = record.exit.unwrap_or(lost);
            self.insert(ManagedProcess::over(id.clone(), record.pid, record.argv, exit, output));
            self.core.forget_later(id);
            return Ok(());
        };
        // Expected before it is delivered: an exit that nobody expects is dropped.
        let raw_exit = self.exits.expect(&id);
        if let Some(exit) = exit {
            self.exits.deliver(exit);
        }
        // Init drops its copy of the input when it is closed, so an input that is still there was cut off.
        let input_cut_off = record.needs_whole_input && spawned.stdin.is_some();
        let descriptors = ProcessDescriptors::new(spawned, command.terminal.is_some())?;
        let (process, sources) = ManagedProcess::running(&command, descriptors, output);
        if record.ends_with_stream || input_cut_off {
            // Its stream was lost with the earlier keeper.
            drop(EndGuard::new(process.clone()));
        }
        let limits = record.limits().fixed();
        let (scope, linger) = (KillScope::Group, self.linger(&record));
        self.follow(
            Supervision { process, sources, raw_exit, limits, scope, observer: None, linger },
            record,
        );
        Ok(())
    }
}
