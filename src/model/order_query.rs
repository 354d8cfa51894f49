//! Search terms for orders in SQL, parsed from one line of input.

use std::str::FromStr;

use crate::{
    Millis, Order, OrderFilter, OrderId, OrderStatus, Reason, UserId, VoucherId,
    control_chars::shortened, reason,
};

/// A query for orders: terms that must all hold.
///
/// `user=1001 voucher=7 status=paid from=14:30 to=-5m id=666032442212352013`, separated by spaces or commas. A number
/// alone is an order ID, and the name of a status alone is that status. `!` before a user, voucher or status negates
/// the term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderQuery {
    /// This order.
    pub id: Option<OrderId>,
    /// Orders that match this filter.
    pub filter: OrderFilter,
}

const FIELDS: [&str; 6] = ["id", "user", "voucher", "status", "from", "to"];

impl OrderQuery {
    /// Whether the query matches every order.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an order matches.
    pub fn holds(&self, order: &Order) -> bool {
        let OrderFilter { is, not, from, to } = self.filter;
        self.id.is_none_or(|id| id == order.id)
            && is.user.is_none_or(|user| user == order.user_id)
            && is.voucher.is_none_or(|voucher| voucher == order.voucher_id)
            && is.status.is_none_or(|status| status == order.status)
            && from.is_none_or(|from| from <= order.id)
            && to.is_none_or(|to| order.id < to)
            && not.user != Some(order.user_id)
            && not.voucher != Some(order.voucher_id)
            && not.status != Some(order.status)
    }
}

impl FromStr for OrderQuery {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut query = Self::default();
        let (mut from, mut to) = (None, None);
        let mut seen: Vec<&'static str> = Vec::new();
        let words = text.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty());
        for word in words {
            let (others, term) = word.strip_prefix('!').map_or((false, word), |it| (true, it));
            let number = !term.is_empty() && term.bytes().all(|b| b.is_ascii_digit());
            let (name, value) = match term.split_once('=') {
                Some((name, value)) if !name.is_empty() && !value.is_empty() => (name, value),
                None if number => ("id", term),
                None if term.parse::<OrderStatus>().is_ok() => ("status", term),
                _ => return Err(reason!("faults-query-term", term = short(word))),
            };
            let known = FIELDS.into_iter().find(|field| *field == name);
            let Some(field) = known else {
                return Err(reason!("faults-query-field", field = short(name)));
            };
            if seen.contains(&field) {
                return Err(reason!("faults-query-twice", field));
            }
            seen.push(field);
            if others && !["user", "voucher", "status"].contains(&field) {
                return Err(reason!("faults-cannot-be-negated-works", field));
            }
            let fault = || reason!("faults-is-not-valid-takes-number", field, value = short(value));
            let whole = || value.trim_start_matches('#').parse::<u64>().ok();
            let terms = if others { &mut query.filter.not } else { &mut query.filter.is };
            match field {
                "id" => query.id = Some(value.parse().map_err(|_| fault())?),
                "user" => terms.user = Some(UserId(whole().ok_or_else(fault)?)),
                "voucher" => terms.voucher = Some(VoucherId(whole().ok_or_else(fault)?)),
                "status" => terms.status = Some(value.parse()?),
                "from" => from = Some(value.parse::<Millis>()?),
                _ => to = Some(value.parse::<Millis>()?),
            }
        }
        query.filter = query.filter.admitted(from, to)?;
        Ok(query)
    }
}

fn short(text: &str) -> String {
    shortened(text, 30)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::OrderTerms;

    fn read(text: &str) -> Result<OrderQuery, Reason> {
        text.parse()
    }

    #[test]
    fn terms_are_combined() {
        assert!(read("  , ").unwrap().is_empty());
        let query = read("user=1001, voucher=#7 status=paid").unwrap();
        let is = OrderTerms {
            user: Some(UserId(1_001)),
            voucher: Some(VoucherId(7)),
            status: Some(OrderStatus::Paid),
        };
        let filter = OrderFilter { is, ..OrderFilter::default() };
        assert_eq!(query, OrderQuery { id: None, filter });
        let id = OrderId::new(1_795_000_000, 3).unwrap();
        assert_eq!(read(&id.to_string()).unwrap().id, Some(id));
        assert_eq!(read(&format!("id={id}")).unwrap().id, Some(id));
        assert!(read("from=2026-11-20T14:30:00Z to=2026-11-20T14:31:00Z").is_ok());
    }

    #[test]
    fn terms_are_negated_and_states_stand_alone() {
        let (user, voucher) = (Some(UserId(7)), Some(VoucherId(1)));
        let not = OrderTerms { user, voucher, status: Some(OrderStatus::Paid) };
        for text in ["!user=7 !voucher=#1 !status=paid", "!paid,!user=#7,!voucher=1"] {
            let filter = OrderFilter { not, ..OrderFilter::default() };
            assert_eq!(read(text).unwrap(), OrderQuery { id: None, filter }, "{text}");
        }
        assert_eq!(read("unpaid"), read("status=unpaid"));
        let query = read("unpaid !user=7").unwrap();
        let order = |user, status| Order {
            id: OrderId::new(1_795_000_000, 3).unwrap(),
            user_id: UserId(user),
            voucher_id: VoucherId(1),
            place: Some(1),
            status,
            create_time: Millis(0),
            pay_time: None,
            close_time: None,
        };
        assert!(query.holds(&order(8, OrderStatus::Unpaid)));
        assert!(!query.holds(&order(7, OrderStatus::Unpaid)));
        assert!(!query.holds(&order(8, OrderStatus::Paid)));
        assert!(!read("!voucher=1").unwrap().holds(&order(8, OrderStatus::Paid)));
        assert!(!read("!paid").unwrap().holds(&order(8, OrderStatus::Paid)));
    }

    #[test]
    fn invalid_queries_are_reported() {
        let fault = |text: &str| read(text).unwrap_err().to_string();
        assert!(fault("status").contains("'status' is not a search term"));
        assert!(
            fault("!").contains("'!' is not a search term")
                && fault("!!paid").contains("'!!paid' is not a search term")
        );
        for (text, field) in
            [("!from=14:30", "from"), ("!to=-5m", "to"), ("!id=5", "id"), ("!5", "id")]
        {
            assert_eq!(read(text), Err(reason!("faults-cannot-be-negated-works", field)), "{text}");
        }
        assert!(fault("user=5 !user=6").contains("twice"));
        assert!(fault("paid !unpaid").contains("twice"));
        assert!(fault("user=").contains("is not a search term"));
        assert!(fault("buyer=5").contains("use id, user, voucher, status, from or to"));
        assert!(fault("user=five").contains("user takes a number"));
        assert!(fault("id=99999999999999999999").contains("id takes a number"));
        assert!(fault("status=late").contains("not an order status"));
        assert!(fault("user=5 user=6").contains("twice"));
        assert!(fault("from=soon").contains("not a time"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_query_or_an_error(text: String) {
            if let Err(fault) = read(&text) {
                prop_assert!(fault.to_string().len() < 300);
            }
        }
    }
}
