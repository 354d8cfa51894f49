//! A sale, a rush and an audit, on a Redis and a `SQLite` file of their own that are gone at the end.

use std::{error::Error, sync::Arc};

use seckill_engine::{
    Command, LoadTest, Reply,
    deployment::{self, Deployment, settings::Settings},
    ledger,
    node::{Node, NodeConfig},
};
use seckill_model::{Millis, NewSale};
use seckill_redis::{DataDir, Layout, ManagedServer, Redis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = DataDir::throw_away()?;
    let server = Arc::new(ManagedServer::attach(&dir)?);
    server.ensure().await?;
    let redis = Redis::from_managed(Arc::clone(&server))?;
    let store =
        seckill_store::open(&dir.database_url(), &seckill_store::Settings::default()).await?;
    let (keys, settings) = (Layout::default(), Settings::default());
    let deployment = Deployment { redis, store, keys, settings };
    // Neither is used with another one from now on.
    deployment::tie(&mut deployment.servers(), false).await?;

    let (name, instance) = ("example".to_owned(), "1".to_owned());
    let node = Node::start(NodeConfig {
        deployment: deployment.clone(),
        name,
        instance,
        read_only: false,
    });
    let (operator, stopping) = (node.operator(), node.stopping());
    let sale = NewSale::checked("milk tea", 100, None, None, Millis::now())?;
    let Reply::SaleCreated(voucher) = operator.execute(Command::CreateSale(sale), stopping).await?
    else {
        return Err("no sale".into());
    };
    let rush = Command::LoadTest(LoadTest::new(voucher, 1_000));
    let Reply::LoadTestDone(report) = operator.execute(rush, stopping).await? else {
        return Err("no load test".into());
    };
    println!("{} of 1,000 users have an order, {} are in SQL", report.admitted, report.persisted);
    let audit = ledger::audit(&mut deployment.servers(), Some(voucher)).await?;
    println!("every order is accounted for: {}", audit.balanced);

    node.stop().await;
    deployment.store.close().await;
    server.detach().await?;
    Ok(())
}
