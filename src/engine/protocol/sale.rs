//! A sale in SQL and its copy in Redis, and the statements and scripts that change them.

/// The row of a sale in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sql {
    pub(super) version: u8,
    pub(super) initial: u8,
}

impl Sql {
    /// `Store::restock`: only at the version that was seen, if one is given.
    pub(super) fn restock(&mut self, by: i8, seen: Option<u8>) -> bool {
        let passes = seen.is_none_or(|seen| seen == self.version);
        if passes {
            self.initial = self.initial.saturating_add_signed(by);
            self.version += 1;
        }
        passes
    }

    /// `Store::fence_sale`: a commit that was prepared at this version, or at any, fails from now on.
    pub(super) fn fence(&mut self, seen: Option<u8>) {
        if seen.is_none_or(|seen| seen == self.version) {
            self.version += 1;
        }
    }
}

/// A cut in progress, the fields `cutting`, `cutter` and `cut_until` of the sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Cutting {
    pub(super) version: u8,
    pub(super) owner: u8,
    /// `cut_until` has passed.
    pub(super) expired: bool,
}

/// The keys of a sale in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Redis {
    pub(super) version: u8,
    pub(super) initial: u8,
    pub(super) stock: u8,
    pub(super) buyers: u8,
    pub(super) cutting: Option<Cutting>,
    /// `reconcile_begin.lua` has closed it.
    pub(super) restoring: bool,
    /// A key is missing.
    pub(super) lost: bool,
    /// The run of the server in which it was reconciled.
    pub(super) run: u8,
}

/// What `sync_sale.lua` replies. `Known` stands for `known` and `mended`; `other` is not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Synced {
    Taken,
    Known,
    Cutting,
    Expired,
    Newer(u8),
    /// The same version of another history.
    Split,
    Damaged,
}

/// What `reconcile_begin.lua` replies. `Closed` stands for `begun`; `Busy` for its reply while a cut is in progress, which the
/// former rule waited for; `kept`, `unsure`, `lost`, `oversold` and `other` are not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Start {
    Whole,
    Open,
    Busy,
    Closed,
}

impl Redis {
    /// A sale that was just loaded.
    pub(super) fn of(sql: Sql) -> Self {
        let Sql { version, initial } = sql;
        Self {
            version,
            initial,
            stock: initial,
            buyers: 0,
            cutting: None,
            restoring: false,
            lost: false,
            run: 0,
        }
    }

    /// `look_at_sale` of `integrity.lua`.
    pub(super) fn is_damaged(&self) -> bool {
        self.lost || self.restoring || self.stock + self.buyers != self.initial
    }

    /// `admit.lua`, for one new buyer.
    pub(super) fn admit(&mut self, run: u8) -> bool {
        let admits = self.run == run && !self.is_damaged() && self.stock > 0;
        if admits {
            self.stock -= 1;
            self.buyers += 1;
        }
        admits
    }

    /// `cut.lua`. As it was, it did not check whether the sale was reconciled in this run of the server.
    pub(super) fn cut(&mut self, by: u8, version: u8, owner: u8, run: Option<u8>) -> bool {
        let cuts = !self.is_damaged()
            && run.is_none_or(|run| run == self.run)
            && self.version == version
            && self.cutting.is_none()
            && self.stock >= by;
        if cuts {
            self.stock -= by;
            self.initial -= by;
            self.cutting = Some(Cutting { version, owner, expired: false });
        }
        cuts
    }

    /// `sync_sale.lua`: no version puts pieces back that are being cut at it or at a newer one, and none has two contents.
    pub(super) fn sync(&mut self, sale: Sql) -> Synced {
        let is_split = self.version == sale.version && self.initial != sale.initial;
        if is_split && self.cutting.is_none() && !self.is_damaged() {
            self.initial = self.initial.min(sale.initial.max(self.buyers));
            self.stock = self.initial - self.buyers;
            return Synced::Split;
        }
        self.sync_by_version(sale)
    }

    /// The same, but it compares versions only.
    pub(super) fn sync_by_version(&mut self, sale: Sql) -> Synced {
        if self.is_damaged() {
            return Synced::Damaged;
        }
        if self.version > sale.version {
            return Synced::Newer(self.version);
        }
        if self.version == sale.version {
            return match self.cutting.filter(|it| it.version == sale.version) {
                Some(Cutting { expired: true, .. }) => Synced::Expired,
                Some(_) => Synced::Cutting,
                None => Synced::Known,
            };
        }
        self.take(sale);
        Synced::Taken
    }

    /// `sync_sale.lua` as it was: the pieces return to the process that says that they are its own, and to any
    /// process once the lease has passed.
    pub(super) fn sync_by_lease(&mut self, sale: Sql, own: bool) -> Synced {
        if self.is_damaged() {
            return Synced::Damaged;
        }
        let cutting = self.cutting;
        if self.version >= sale.version && cutting.is_none_or(|it| it.version > sale.version) {
            return Synced::Known;
        }
        if cutting.is_some_and(|it| it.version >= sale.version && !it.expired && !own) {
            return Synced::Cutting;
        }
        self.take(sale);
        Synced::Taken
    }

    fn take(&mut self, sale: Sql) {
        let stock = i16::from(self.stock) + i16::from(sale.initial) - i16::from(self.initial);
        self.stock = stock.max(0) as u8;
        (self.version, self.initial, self.cutting) = (sale.version, sale.initial, None);
    }

    /// `reconcile_begin.lua`, by a process that knows this run of the server; `lease` as it was: a cut in progress holds
    /// it up.
    pub(super) fn reconcile_begin(&mut self, sale: Sql, run: u8, lease: bool) -> Start {
        let waits = lease && self.cutting.is_some_and(|it| !it.expired);
        let is_kept = !lease || waits || self.cutting.is_none();
        match self.is_damaged() {
            false if self.run == run && is_kept => return Start::Whole,
            _ if waits => return Start::Busy,
            false if is_kept => return Start::Open,
            _ => {}
        }
        if self.lost || self.version <= sale.version {
            (self.version, self.initial) = (sale.version, sale.initial);
        }
        (self.cutting, self.restoring, self.lost) = (None, true, false);
        Start::Closed
    }

    /// `reconcile_begin.lua` once more, with the version that the process has raised.
    pub(super) fn reconcile_again(&mut self, sale: Sql) -> bool {
        if self.restoring && self.version <= sale.version {
            (self.version, self.initial) = (sale.version, sale.initial);
        }
        self.restoring
    }

    /// `restore.lua` for all buyers, and `reconcile_end.lua`: of a sale that was closed for it, or that stayed open. Not
    /// if a key was lost meanwhile.
    pub(super) fn reconcile_end(&mut self, buyers: u8, run: u8, closed: bool) {
        if closed && self.restoring && !self.lost {
            self.buyers = buyers;
            self.stock = self.initial.saturating_sub(buyers);
            (self.restoring, self.run) = (false, run);
        } else if !closed && !self.is_damaged() {
            let more = buyers.saturating_sub(self.buyers).min(self.stock);
            (self.buyers, self.stock) = (self.buyers + more, self.stock - more);
            self.run = run;
        }
    }
}
