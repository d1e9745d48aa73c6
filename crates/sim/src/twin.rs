//! A process that takes part under another one's name, or goes on from another one's bid.
//!
//! The elector refuses to stand twice in one program, and it cannot be copied. So a twin stands in an election of
//! another name, and this door translates: to the store it is the same election, and, for a clone, the same bid.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt;
use tenure_core::store::{
    Acquisition, Bid, Change, Changes, Guarantees, Lease, LeaseRecord, LeaseStore, Operator, Release,
    Released, Renew, Renewal, StoreError,
};
use tenure_core::{BidId, ElectionName};

use crate::network::unpoisoned;

/// The door of a twin.
pub struct Twin {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Arc<dyn LeaseStore>,
    /// What the election is called in the store.
    there: ElectionName,
    /// The bid that the twin goes on from, if it is a clone.
    original: Option<BidId>,
    /// The bid that stands for the original one in the twin.
    own: Mutex<Option<BidId>>,
}

impl Twin {
    /// Makes the door of a twin to the election `there`, which goes on from the bid `original` if it is a clone.
    #[must_use]
    pub fn new(inner: Arc<dyn LeaseStore>, there: ElectionName, original: Option<BidId>) -> Self {
        Self { shared: Arc::new(Shared { inner, there, original, own: Mutex::default() }) }
    }
}

impl Shared {
    fn bid_there(&self, bid: BidId) -> BidId {
        self.original.filter(|_| *unpoisoned(&self.own) == Some(bid)).unwrap_or(bid)
    }

    fn bid_here(&self, bid: BidId) -> BidId {
        let own = *unpoisoned(&self.own);
        own.filter(|_| self.original == Some(bid)).unwrap_or(bid)
    }

    fn lease_there(&self, lease: &Lease) -> Lease {
        Lease { election: self.there.clone(), bid: self.bid_there(lease.bid), ..lease.clone() }
    }

    fn lease_here(&self, here: &ElectionName, lease: Lease) -> Lease {
        Lease { election: here.clone(), bid: self.bid_here(lease.bid), ..lease }
    }

    fn record_here(&self, here: &ElectionName, mut record: LeaseRecord) -> LeaseRecord {
        record.election = here.clone();
        if let Some(holder) = &mut record.holder {
            holder.bid = self.bid_here(holder.bid);
        }
        for term in &mut record.last_terms {
            term.bid = self.bid_here(term.bid);
        }
        record
    }
}

#[async_trait]
impl LeaseStore for Twin {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        // The first bid is the copied one.
        unpoisoned(&self.shared.own).get_or_insert(bid.id);
        let bid = Bid { id: self.shared.bid_there(bid.id), ..bid.clone() };
        Ok(match self.shared.inner.acquire(&self.shared.there, &bid).await? {
            Acquisition::Acquired(lease) => Acquisition::Acquired(self.shared.lease_here(election, lease)),
            Acquisition::Refused(record) => {
                Acquisition::Refused(Box::new(self.shared.record_here(election, *record)))
            }
        })
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let there: Vec<_> = renewals
            .iter()
            .map(|renewal| Renew { lease: self.shared.lease_there(&renewal.lease), ..renewal.clone() })
            .collect();
        let answers = self.shared.inner.renew(&there).await;
        let here = |(renewal, answer): (&Renew, Result<Renewal, StoreError>)| {
            let election = &renewal.lease.election;
            Ok(match answer? {
                Renewal::Renewed(lease, request) => {
                    Renewal::Renewed(self.shared.lease_here(election, lease), request)
                }
                Renewal::Lost(record) => {
                    Renewal::Lost(record.map(|record| Box::new(self.shared.record_here(election, *record))))
                }
            })
        };
        renewals.iter().zip(answers).map(here).collect()
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let release = Release { lease: self.shared.lease_there(&release.lease), ..release.clone() };
        self.shared.inner.release(&release).await
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        Ok(self
            .shared
            .inner
            .read(&self.shared.there)
            .await?
            .map(|record| self.shared.record_here(election, record)))
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        let here = elections.first()?.clone();
        let changes = self.shared.inner.watch(std::slice::from_ref(&self.shared.there))?;
        let names = Arc::clone(&self.shared);
        Some(Box::pin(changes.map(move |change| match change {
            Change::Record(record) => Change::Record(Box::new(names.record_here(&here, *record))),
            Change::Gap => Change::Gap,
        })))
    }

    fn guarantees(&self) -> Guarantees {
        self.shared.inner.guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        None
    }
}
