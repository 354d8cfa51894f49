//! Words of why the number of partitions does not do. In Chinese only: in English the fault tells itself.

use seckill_engine::refusal::{PartitionsFault, UnderWay};

use super::figures::thousands;

pub(super) fn partitions(fault: &PartitionsFault) -> String {
    match fault {
        PartitionsFault::Stored { text, most } => {
            format!("tb_setting 中的分区数“{text}”不可用，请填 1 到 {most}")
        }
        PartitionsFault::Other(stored, known) => {
            format!("分区数现为 {stored}，该节点仍按 {known}，请重新启动")
        }
        PartitionsFault::Changed => "分区数刚被他人更改，请重新启动".to_owned(),
        PartitionsFault::NotNow(from, to, why) => {
            let why = match why {
                UnderWay::Node(node) => format!("节点 {node} 在线，请先停止所有节点"),
                UnderWay::Unknown => {
                    "Redis 无法得知等待中的消息数，请让节点消费完；若无效，请重启 Redis".to_owned()
                }
                UnderWay::Entries(entries, partitions) => format!(
                    "有 {} 条消息未完成，请让 {partitions} 个分区的节点消费完：seckill work",
                    thousands(*entries)
                ),
                UnderWay::Letters(letters) => {
                    format!("有 {} 条死信待人工处理", thousands(*letters))
                }
            };
            format!("分区数为 {from}，现在不能改为 {to}：{why}")
        }
    }
}
