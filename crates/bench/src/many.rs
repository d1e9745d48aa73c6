//! Many elections led by one process, at ttl 30 s and renew interval 10 s.

use std::error::Error;
use std::time::Duration;

use tenure_core::elector::{ElectionStatus, ElectorHandle, ElectorState};
use tenure_core::store::LeaseStore;
use tenure_core::{Elections, Settings};

use crate::figures::Figures;
use crate::machine::{boot, processor_time, resident_bytes, sleep};

/// What a hundred thousand first bids at once need is not what a hundred thousand leaders need.
const WAVE: usize = 1000;

pub(crate) struct Many {
    elections: Elections,
    handles: Vec<ElectorHandle>,
    /// From the first start until all were elected.
    pub(crate) took: Duration,
}

impl Many {
    /// Leads `count` elections.
    pub(crate) async fn elect(
        store: impl LeaseStore,
        name: &str,
        count: usize,
    ) -> Result<Self, Box<dyn Error>> {
        let settings = Settings::ttl(Duration::from_secs(30)).renew_interval(Duration::from_secs(10));
        let elections = Elections::builder(store).settings(settings).build();
        let begin = boot();
        let mut handles: Vec<ElectorHandle> = Vec::with_capacity(count);
        while handles.len() < count {
            let wave = handles.len();
            for number in wave..count.min(wave + WAVE) {
                handles.push(elections.elector(format!("{name}-{number}")).start()?);
            }
            for handle in &handles[wave..] {
                handle.statuses().wait_for(|status| status.state == ElectorState::Leading).await?;
            }
        }
        Ok(Self { elections, handles, took: boot() - begin })
    }

    /// Adds what they cost a process that had `before` bytes without them.
    pub(crate) async fn at_work(
        &self,
        figures: &mut Figures,
        name: &str,
        before: u64,
    ) -> Result<(), Box<dyn Error>> {
        // Past the first renewals, so that the figure is that of a process at work.
        sleep(Duration::from_secs(12)).await;
        let each = resident_bytes().saturating_sub(before) / u64::try_from(self.handles.len())?;
        #[allow(clippy::cast_precision_loss)] // Thousands of bytes.
        figures.add(&format!("{name}_bytes"), each as f64, "bytes each");
        let (begin, used) = (boot(), processor_time());
        sleep(Duration::from_secs(20)).await;
        let share = (processor_time() - used).as_secs_f64() / (boot() - begin).as_secs_f64();
        figures.add(&format!("{name}_core_percent"), share * 100.0, "% of a core");
        let late = self.handles.iter().filter(|handle| !is_in_time(&handle.status())).count();
        #[allow(clippy::cast_precision_loss)] // A hundred thousand at most.
        figures.add(&format!("{name}_late"), late as f64, "late");
        Ok(())
    }

    pub(crate) async fn close(self) {
        drop(self.handles);
        self.elections.close().await;
    }
}

/// Renewed within its interval and half of it again, and still leading.
fn is_in_time(status: &ElectionStatus) -> bool {
    let since = status.last_answer.map(|answer| boot().saturating_sub(answer.boot()));
    status.state == ElectorState::Leading && since.is_some_and(|since| since <= Duration::from_secs(15))
}
