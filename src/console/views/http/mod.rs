//! HTTP servers of the nodes: requests, answers, latencies, and who sends the most requests.

use std::fmt::Display;

use seckill_engine::telemetry::snapshot::{HttpLine, Talker};

use super::prelude::*;

impl Row for HttpLine {
    type Id = String;
    type Key = ();

    const VIEW: View = View::Http;
    const KEYS: &'static [ViewKey] = &[USERS, FILTER];
    const EMPTY: Label = Label("servers-none");
    const SOURCES: &'static [Source] = &[Source::Redis];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text(Label("common-node"), (0, 14), |it: &Self| it.node.clone().into()),
        Column::figure(Label("tables-requests-per-second"), (0, 10), |it: &Self| {
            Value::Number(it.per_second.round() as i64)
        }),
        Column::figure(Label("tables-2xx"), (72, 9), |it: &Self| it.answers_of(2).into()),
        Column::figure(Label("tables-4xx"), (0, 8), |it: &Self| it.answers_of(4).into()),
        Column::figure(Label("tables-5xx"), (0, 8), |it: &Self| it.answers_of(5).into())
            .styled(|scene, it| if it.answers_of(5) > 0 { scene.theme.warn } else { Style::new() }),
        Column::span(Label("tables-p50"), (126, 7), |it: &Self| {
            it.latency.map(|it| Value::Micros(it.p50)).into()
        }),
        Column::span(Label("tables-p99"), (0, 7), |it: &Self| {
            it.latency.map(|it| Value::Micros(it.p99)).into()
        }),
        Column::figure(Label("tables-in-progress"), (116, 11), |it: &Self| it.in_flight.into()),
        Column::figure(Label("tables-connections"), (140, 11), |it: &Self| it.connections.into()),
        Column::figure(Label("tables-limited"), (72, 8), |it: &Self| it.limited().into()),
        Column::text(Label("tables-address"), (96, REST), |it: &Self| it.url.clone().into()).soft(),
    ];

    fn id(&self) -> String {
        self.node.clone()
    }

    fn page(snapshot: &Snapshot) -> Page<'_, Self> {
        Page::whole(&snapshot.http)
    }

    fn detail<'a>(scene: &'a Scene, it: &'a Self, cells: u16) -> Option<Detail<'a>> {
        let mut detail = Detail::new(scene, cells);
        let answers = it.answers.iter().map(|(code, count)| (code, figures::thousands(*count)));
        let latency = it.latency.map_or_else(
            || text!("common-none"),
            |it| {
                let [p50, p99, max] = [it.p50, it.p99, it.max].map(figures::latency);
                text!("servers-latency", p50, p99, max)
            },
        );
        let (open, most, requests) = (it.connections, it.max_connections, it.in_flight);
        let (user, address) = (it.limited_users, it.limited_addresses);
        detail.text(Label("field-address"), &it.url);
        detail.text(Label("field-answers"), listed(answers));
        detail.text(Label("field-latency"), latency);
        detail.text(Label("field-connections"), text!("servers-connections", open, most, requests));
        detail.text(Label("field-limited"), text!("servers-limited", user, address));
        detail.text(Label("field-top-users"), talkers(scene, &it.users));
        detail.text(Label("field-top-addresses"), talkers(scene, &it.addresses));
        if let Some(address) = it.one_address {
            let address = scene.users.number(address);
            detail.text(Label("field-notice"), text!("http-one-address", address));
        }
        Some(detail)
    }
}

fn talkers<K: Display + Copy>(scene: &Scene, talkers: &[Talker<K>]) -> String {
    listed(talkers.iter().map(|it| (scene.users.number(it.id), figures::rate(it.per_second))))
}

/// Names with their figures.
fn listed(pairs: impl Iterator<Item = (impl Display, String)>) -> String {
    let pairs: Vec<_> = pairs.map(|(name, figure)| format!("{name}: {figure}")).collect();
    if pairs.is_empty() { text!("common-none") } else { pairs.join(&Label("list-items")) }
}
