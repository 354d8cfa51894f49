//! The forms as data: the fields of each, and how its input becomes a command.

use std::{collections::BTreeSet, ops::RangeInclusive, str::FromStr};

use seckill_engine::{
    Command, LoadTest, SaleLine,
    commands::group::{ClaimScope, GroupAction, To},
};
use seckill_lab::{Incident, Work};
use seckill_model::{
    Label, Millis, NewSale, Phase, Reason, VoucherId, When,
    message::Lines,
    sale::{check_restock, check_stock, check_title},
    text,
};

use super::{Confirm, Dialog, Effect, Form, Intent, Subject};
use crate::{
    launch::Launch,
    text::{
        commands::{NO_SALE, question, restock, rush, rush_plan},
        figures, sale_name,
    },
    views::scene::Scene,
    widgets::plain,
};

/// Maximum number of buyers in one load test.
const MOST_BUYERS: u64 = 10_000_000;
/// Longest countdown and longest arrival time, in seconds.
const LONGEST: u64 = 3_600;

/// Maximum number of seeds in one run of the lab.
const MOST_SEEDS: u64 = 1_000;
/// All incidents of the lab, and none of them.
const ALL: &str = "all";
const NONE: &str = "none";

/// The parsed input, or the position of a field and its error.
pub(super) type Checked<T> = Result<T, (usize, String)>;

impl Form {
    pub(crate) fn new_sale() -> Self {
        let fields = [
            (Label("forms-title"), Label("forms-what-buyers-read"), ""),
            (Label("common-stock"), Label("forms-pieces-on-sale"), ""),
            (Label("forms-limit"), Label("forms-orders-per-user"), "1"),
            (Label("forms-begin"), Label("forms-empty-now-10m"), ""),
            (Label("common-end"), Label("forms-empty-none-1h"), ""),
            (Label("forms-shards"), Label("forms-parts-of-the-stock"), "1"),
        ];
        let title = Label("forms-new-sale").to_owned();
        Self::new(Subject::NewSale, title, Label("common-create"), &fields)
    }

    /// Ten buyers per piece by default.
    pub(crate) fn load_test(sale: &SaleLine) -> Self {
        let buyers = sale.initial.saturating_mul(10).clamp(1, MOST_BUYERS).to_string();
        let fields = [
            (Label("common-buyers"), Label("forms-distinct-users"), &*buyers),
            (Label("forms-twice"), Label("forms-percentage-that-requests-twice"), "10"),
            (Label("director-within"), Label("director-spread-over-so-many-seconds"), "10"),
        ];
        let title = text!("forms-rush-on", sale = sale_name(sale.voucher_id, &sale.title));
        Self::new(Subject::LoadTest(sale.voucher_id), title, Label("forms-go-on"), &fields)
    }

    pub(crate) fn restock(sale: &SaleLine) -> Self {
        let fields = [(Label("forms-change"), Label("forms-pieces-to-add-or-remove"), "")];
        let title = text!("forms-restock", sale = sale_name(sale.voucher_id, &sale.title));
        Self::new(Subject::Restock(sale.voucher_id), title, Label("forms-go-on"), &fields)
    }

    /// Starts with the planned sale on the screen, if any.
    pub(crate) fn launch(planned: Option<VoucherId>) -> Self {
        let sale = planned.map_or_else(String::new, |id| format!("#{id}"));
        let fields = [
            (Label("director-sale"), Label("director-id-of-planned-sale"), &*sale),
            (Label("common-stock"), Label("director-pieces-of-new-sale"), ""),
            (Label("common-buyers"), Label("forms-distinct-users"), "20000"),
            (Label("director-within"), Label("director-spread-over-so-many-seconds"), "10"),
            (Label("director-start-in"), Label("director-countdown-in-seconds"), "10"),
        ];
        let title = Label("director-schedule-launch").to_owned();
        Self::new(Subject::Launch(planned), title, Label("forms-go-on"), &fields)
    }

    pub(crate) fn rewind(partition: Option<u16>) -> Self {
        let fields = [(Label("stream-from"), Label("stream-start-entry-id-or-10m"), "")];
        let title = Label("stream-redeliver-entries").to_owned();
        Self::new(Subject::Rewind(partition), title, Label("stream-preview"), &fields)
    }

    /// `title` names what is transferred; `to` is a possible receiver.
    pub(crate) fn claim(scope: ClaimScope, title: String, to: &str) -> Self {
        let fields = [(Label("stream-to"), Label("stream-consumer-or-node"), to)];
        Self::new(Subject::Claim(scope), title, Label("stream-preview"), &fields)
    }

    /// The work of the lab.
    pub(crate) fn lab_work(work: &Work, seeds: &[u64]) -> Self {
        let percent = (work.repeat * 100.0).round();
        let values = [work.buyers, work.stock, work.concurrency, work.instances, work.think_ms];
        let [buyers, stock, concurrency, instances, think] = values.map(|it| it.to_string());
        let first = seeds.first().copied().unwrap_or(1).to_string();
        let (percent, seeds) = (percent.to_string(), seeds.len().to_string());
        let names: Vec<&str> = work.incidents.iter().map(Into::into).collect();
        let incidents = match names.len() {
            0 => NONE.to_owned(),
            count if count == Incident::NAMES.len() => ALL.to_owned(),
            _ => names.join(", "),
        };
        let fields = [
            (Label("common-buyers"), Label("lab-form-buyers"), &*buyers),
            (Label("common-stock"), Label("lab-form-stock"), &*stock),
            (Label("forms-twice"), Label("forms-percentage-that-requests-twice"), &*percent),
            (Label("lab-form-parallel"), Label("lab-form-parallel-hint"), &*concurrency),
            (Label("lab-form-instances"), Label("lab-form-instances-hint"), &*instances),
            (Label("lab-form-think"), Label("lab-form-think-hint"), &*think),
            (Label("lab-form-incidents"), Label("lab-form-incidents-hint"), &*incidents),
            (Label("lab-form-first"), Label("lab-form-first-hint"), &*first),
            (Label("lab-form-seeds"), Label("lab-form-seeds-hint"), &*seeds),
        ];
        let title = Label("lab-form-title").to_owned();
        Self::new(Subject::LabWork, title, Label("lab-form-apply"), &fields)
    }

    /// The planned sale with the ID that is typed into the form of a launch.
    pub(super) fn planned_sale(&self, scene: &Scene) -> Option<String> {
        let id = numbered(self.value(0)).filter(|_| matches!(self.subject, Subject::Launch(_)))?;
        let sale = planned(id, &scene.newest.sales)?;
        Some(text!("director-pieces", title = plain(&sale.title), count = sale.initial))
    }

    /// Lines below the fields.
    pub(super) fn notes(&self) -> Vec<String> {
        match &self.subject {
            Subject::NewSale | Subject::Launch(_) | Subject::Restock(_) | Subject::LabWork => {
                Vec::new()
            }
            Subject::LoadTest(voucher) => {
                let missing = || vec![Label("forms-plan-appears-here-once-both").to_owned()];
                let plan = self.check_load_test(*voucher);
                plan.map_or_else(|_| missing(), |plan| rush_plan(&plan))
            }
            Subject::Rewind(partition) => {
                let number = partition.map_or_else(|| "all".to_owned(), |it| it.to_string());
                let place = text!("stream-in-partition-only", number);
                vec![place, text!("stream-nothing-changes-yet-confirmation")]
            }
            Subject::Claim(_) => vec![text!("stream-nothing-changes-yet-confirmation")],
        }
    }

    /// The question that the completed form leads to, or the command whose reply does.
    pub(super) fn check(&self, scene: &Scene) -> Checked<Effect> {
        let (sales, now) = (&scene.newest.sales, scene.now);
        match &self.subject {
            Subject::NewSale => {
                let sale = self.check_sale(now)?;
                let (title, stock, limit) = (plain(&sale.title), sale.stock, sale.limit);
                let [begin, end] = [sale.begin, sale.end]
                    .map(|at| at.map_or_else(|| "none".to_owned(), |at| at.date_time(&scene.zone)));
                let shards = sale.shards;
                let question =
                    question!("ask-create-sale", title, stock, limit, shards, begin, end);
                Ok(Effect::confirm(question, Command::CreateSale(sale)))
            }
            Subject::LoadTest(voucher) => {
                let plan = self.check_load_test(*voucher)?;
                let Some(sale) = scene.sale(*voucher) else { return Ok(Effect::note(NO_SALE)) };
                Ok(Effect::confirm(rush(sale, &plan), Command::LoadTest(plan)))
            }
            Subject::Restock(voucher) => {
                let by = check_restock(self.integer(0)?).map_err(|fault| (0, fault.to_string()))?;
                let Some(sale) = scene.sale(*voucher) else { return Ok(Effect::note(NO_SALE)) };
                if let Some(left) = sale.stock.filter(|left| by < -left.max(&0)) {
                    let (sale, by) = (*voucher, by.unsigned_abs());
                    return Err((0, text!("error-short", sale, by, left = left.max(0))));
                }
                let command = Command::Restock { voucher: *voucher, by };
                Ok(Effect::confirm(restock(sale, by), command))
            }
            Subject::Launch(_) => {
                let launch = self.check_launch(sales, now)?;
                let (seconds, events) = (launch.countdown, Lines(launch.events()));
                let question = question!("ask-schedule-launch", seconds, events);
                let confirm = Confirm::new(question, Intent::Arm(Box::new(launch)));
                Ok(Effect::Open(Dialog::Confirm(confirm)))
            }
            Subject::Rewind(partition) => {
                let to: Result<To, _> = self.value(0).parse();
                let to = to.map_err(|error| (0, error.to_string()))?;
                Ok(preview(GroupAction::Rewind { to, partition: *partition }))
            }
            Subject::LabWork => {
                let (work, seeds) = self.check_lab_work()?;
                Ok(Effect::LabWork(work, seeds))
            }
            Subject::Claim(scope) => match self.value(0) {
                "" => Err((0, Label("stream-enter-consumer-that-receives-them").to_owned())),
                to => Ok(preview(GroupAction::Claim { scope: scope.clone(), to: to.to_owned() })),
            },
        }
    }

    fn check_sale(&self, now: Millis) -> Checked<NewSale> {
        let at = |field: usize| move |fault: Reason| (field, fault.to_string());
        let [title_at, stock_at, limit_at, begin_at, end_at, shards_at] = [0, 1, 2, 3, 4, 5];
        let title = check_title(self.value(title_at)).map_err(at(title_at))?;
        let stock = check_stock(self.integer(stock_at)?).map_err(at(stock_at))?;
        let (limit, shards) = (self.integer(limit_at)?, self.integer(shards_at)?);
        let (begin, end) = (self.time(begin_at, now)?, self.time(end_at, now)?);
        // With a valid title and stock, only the window can be invalid.
        let sale = NewSale::checked(&title, stock, begin, end, now).map_err(at(end_at))?;
        sale.limited(limit).map_err(at(limit_at))?.sharded(shards).map_err(at(shards_at))
    }

    fn check_lab_work(&self) -> Checked<(Work, Vec<u64>)> {
        let [buyers, stock] = [self.integer(0)?, self.integer(1)?];
        let repeat = self.number(2, 0..=100)? as f64 / 100.0;
        let [concurrency, instances] = [self.integer(3)?, self.integer(4)?];
        let think_ms = self.integer(5)?;
        let incidents = self.incidents(6)?;
        let first = self.number(7, 0..=u64::MAX - MOST_SEEDS)?;
        let seeds = self.number(8, 1..=MOST_SEEDS)?;
        let work = Work { buyers, stock, repeat, concurrency, instances, think_ms, incidents };
        let Err(fault) = work.check() else { return Ok((work, (first..first + seeds).collect())) };
        // The field is the first one that is wrong beside the default of the others.
        let default = Work::default;
        let alone = [
            Work { buyers, think_ms: 0, ..default() },
            Work { stock, ..default() },
            default(),
            Work { concurrency, instances: 1, ..default() },
            Work { instances, concurrency: concurrency.max(1), ..default() },
        ];
        let field = alone.iter().position(|it| it.check().is_err());
        Err((field.unwrap_or(alone.len()), fault.to_string()))
    }

    /// Parses the names of incidents, separated by commas.
    fn incidents(&self, field: usize) -> Checked<BTreeSet<Incident>> {
        let parse = |name: &str| {
            let names = || Incident::NAMES.join(", ");
            let wrong = |_| (field, text!("lab-form-no-incident", name, names = names()));
            name.parse().map_err(wrong)
        };
        match self.value(field) {
            ALL => Ok(Work::default().incidents),
            NONE => Ok(BTreeSet::new()),
            names => names.split(',').map(str::trim).map(parse).collect(),
        }
    }

    fn check_load_test(&self, voucher: VoucherId) -> Checked<LoadTest> {
        let (users, percent) = (self.number(0, 1..=MOST_BUYERS)?, self.number(1, 0..=100)?);
        let within = self.number(2, 0..=LONGEST)?;
        let plan = LoadTest { repeat: percent as f64 / 100.0, ..LoadTest::new(voucher, users) };
        Ok(plan.within(within))
    }

    fn check_launch(&self, sales: &[SaleLine], now: Millis) -> Checked<Launch> {
        let [sale_at, stock_at, buyers_at, within_at, countdown_at] = [0, 1, 2, 3, 4];
        let written = self.value(sale_at);
        let sale = match numbered(written) {
            None => None,
            Some(id) => Some(
                planned(id, sales)
                    .ok_or_else(|| (sale_at, text!("director-is-not-planned-sale-enter", id)))?,
            ),
        };
        let (title, pieces) = match sale {
            Some(_) if !self.value(stock_at).is_empty() => {
                return Err((stock_at, Label("director-leave-this-empty-for-planned").to_owned()));
            }
            Some(sale) => (sale.title.clone(), sale.initial),
            None => {
                let title = check_title(written).map_err(|fault| (sale_at, fault.to_string()))?;
                let pieces = check_stock(self.integer(stock_at)?);
                (title, pieces.map_err(|fault| (stock_at, fault.to_string()))?)
            }
        };
        let buyers = self.number(buyers_at, 1..=MOST_BUYERS)?;
        let within = self.number(within_at, 0..=LONGEST)?;
        let countdown = self.number(countdown_at, 1..=LONGEST)?;
        let opens = sale.and_then(|sale| sale.begin).map(|begin| begin.since(now));
        if let Some(left) = opens.filter(|left| *left <= countdown * 1_000) {
            let left = figures::clock(left);
            return Err((countdown_at, text!("director-sale-starts-by-itself", left)));
        }
        let planned = sale.map(|sale| sale.voucher_id);
        Ok(Launch { planned, title, pieces, buyers, within, countdown, reason: None })
    }

    /// Parses a whole number of this range.
    fn number(&self, field: usize, range: RangeInclusive<u64>) -> Checked<u64> {
        let number = self.integer(field)?;
        if range.contains(&number) {
            return Ok(number);
        }
        let (least, most) = range.into_inner();
        Err((field, text!("forms-give-to", least, most)))
    }

    /// Parses a whole number without a range, also with the separators of the screen.
    fn integer<T: FromStr>(&self, field: usize) -> Checked<T> {
        let plain = self.value(field).replace([',', '_', ' '], "");
        plain.parse().map_err(|_| (field, Label("forms-is-not-integer").to_owned()))
    }

    /// Parses a time, if there is one.
    fn time(&self, field: usize, now: Millis) -> Checked<Option<Millis>> {
        match self.value(field) {
            "" => Ok(None),
            written => match written.parse::<When>() {
                Ok(when) => Ok(Some(when.from(now))),
                Err(fault) => Err((field, fault.to_string())),
            },
        }
    }
}

/// The question follows when the preview arrives.
fn preview(action: GroupAction) -> Effect {
    Effect::Send(Command::Preview(action), None)
}

fn planned(id: VoucherId, sales: &[SaleLine]) -> Option<&SaleLine> {
    sales.iter().find(|it| it.voucher_id == id && it.phase == Phase::Planned)
}

/// A voucher ID, with or without `#`.
fn numbered(written: &str) -> Option<VoucherId> {
    written.strip_prefix('#').unwrap_or(written).parse().ok().map(VoucherId)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::theme::{Depth, Theme};

    fn filled(mut form: Form, values: &[&str]) -> Form {
        for (field, value) in form.fields.iter_mut().zip(values) {
            field.input = (*value).into();
        }
        form
    }

    #[test]
    fn errors_are_below_their_field() {
        let theme = Theme::new(Depth::None, false);
        let display = Scene::new(theme, TimeZone::UTC, Millis::now());
        let place = |values: [&str; 5]| {
            let mut form = filled(Form::new_sale(), &values);
            assert!(form.submit(&display).is_none());
            form.fault.map(|(place, _)| place)
        };
        assert_eq!(place(["", "5", "1", "", ""]), Some(0));
        assert_eq!(place(["t", "", "1", "", ""]), Some(1));
        assert_eq!(place(["t", "0", "1", "", ""]), Some(1));
        for limit in ["", "0", "21", "many"] {
            assert_eq!(place(["t", "5", limit, "", ""]), Some(2));
        }
        assert_eq!(place(["t", "5", "1", "soon", ""]), Some(3));
        assert_eq!(place(["t", "5", "1", "", "2020-01-01 00:00"]), Some(4));
        assert_eq!(place(["t", "5", "1", "+2h", "+1h"]), Some(4));
    }

    #[test]
    fn a_good_form_is_a_sale() {
        let values = [" 火锅五折 🍲 ", "10,000", "3", "", "+1h"];
        let sale = filled(Form::new_sale(), &values).check_sale(Millis::now());
        assert!(matches!(sale, Ok(sale)
            if sale.title == "火锅五折 🍲"
                && (sale.stock, sale.limit) == (10_000, 3)
                && sale.begin.is_none()
                && sale.end.is_some()));
    }

    #[test]
    fn both_ends_of_each_number_are_valid() {
        let form = |text: &str| filled(Form::rewind(None), &[text]);
        let ok = |text: &str, least, most| form(text).number(0, least..=most).is_ok();
        assert!(ok("1", 1, MOST_BUYERS) && ok("10,000,000", 1, MOST_BUYERS));
        assert!(!ok("0", 1, MOST_BUYERS) && !ok("10000001", 1, MOST_BUYERS));
        assert!(ok("0", 0, 100) && ok("100", 0, 100) && !ok("101", 0, 100));
        assert!(!ok("", 0, 100) && !ok("-1", 0, 100) && !ok("ten", 0, 100));
        assert!(!ok("99999999999999999999999", 1, MOST_BUYERS));
    }
}
