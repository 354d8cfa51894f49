# 简体中文。

## action

action-abort = 停止
    .help = 取消定时开抢，或停止压测
    .name = 取消开抢
action-accept = 确定
    .help = 确认执行
action-arm = 安排
    .help = 定时开始秒杀并压测
    .name = 定时开抢
action-back = 返回
    .help = 返回上一步
action-cancel = 取消
    .help = 放弃并关闭
action-claim = 转移
    .help = 把待确认消息转移给其他消费者
    .name = 转移
action-close = 收起
    .help = 收起详情
action-compensate = 退还库存
    .help = 取消订单、退还库存并删除死信
    .name = 退还库存
action-copy-name = 复制
    .help = 复制所选行的 ID 或名称
    .name = 复制
action-copy-row = 复制整行
    .help = 按导出格式复制整行
    .name = 复制整行
action-discard = 丢弃
    .help = 丢弃没有买家等待的死信
    .name = 丢弃
action-down = 下移
    .help = 下移一行
action-earlier = 更早
    .help = 查看更早的时刻
    .name = 更早
action-end = 结束
    .help = 永久结束一场秒杀
    .name = 结束
action-export = 导出
    .help = 把屏幕或表格导出到文件
    .name = 导出
action-filter = 筛选
    .help = 按文本筛选行，!文本 表示排除
    .name = 筛选
action-fire = 开抢
    .help = 不等倒计时，立即开抢
    .name = 立即开抢
action-first = 首行
    .help = 到首行，再按到首页
action-freeze = 冻结
    .help = 冻结或恢复画面
    .name = 冻结画面
action-guide-next = 下一步
    .help = 演示的下一步，演练中的提示
    .name = 下一步
action-help = 帮助
    .help = 显示本帮助
    .name = 帮助
action-lab-database = 数据库
    .help = 切换运行方案的数据库
    .name = 实验数据库
action-lab-mend = 修正方案
    .help = 转到修正该缺陷的方案
    .name = 修正方案
action-lab-panel = 柱状图
    .help = 柱状图或详情；下一条被违反的承诺
    .name = 实验柱状图
action-lab-run = 运行
    .help = 运行已标记的方案或当前行
    .name = 运行方案
action-lab-work = 负载
    .help = 修改买家、库存、并发、种子
    .name = 实验负载
action-last = 末行
    .help = 到末行，再按到下一页
action-later = 更晚
    .help = 查看更晚的时刻
    .name = 更晚
action-level = 级别
    .help = 显示全部、告警或操作
    .name = 级别
action-mark = 标记
    .help = 标记或取消标记本行并下移
    .name = 标记
action-mark-after = 下一事件
    .help = 下一条操作或告警
    .name = 下一事件
action-mark-all = 全部标记
    .help = 标记全部，或筛选出的全部行
    .name = 全部标记
action-mark-before = 上一事件
    .help = 上一条操作或告警
    .name = 上一事件
action-mouse = 鼠标
    .help = 启用或停用鼠标
    .name = 鼠标
action-new-sale = 新建秒杀
    .help = 新建一场秒杀
    .name = 新建秒杀
action-next-page = 下一页
    .help = 下一页：更早的订单
    .name = 下一页
action-next-part = 下一项
    .help = 下一个输入框或按钮
action-next-view = 下一视图
    .help = 下一个视图
action-open = 详情
    .help = 查看所选行的详情
    .name = 详情
action-page-down = 下翻
    .help = 下翻一屏，到底后翻到下一页
action-page-up = 上翻
    .help = 上翻一屏，到顶后翻到上一页
action-palette = 命令
    .help = 按名称执行命令
action-pane = 消费者
    .help = 在消费者与消息之间切换
    .name = 消费者 / 消息
action-partition = 分区
    .help = 下一个分区或全部
    .name = 分区
action-pause = 暂停
    .help = 暂停或恢复
    .name = 暂停 / 恢复
action-pay = 支付
    .help = 将未支付的订单标为已支付
    .name = 支付
action-picture = 截图
    .help = 立即保存屏幕截图
action-plan-recovery = 计划
    .help = 为待确认消息制定恢复计划
    .name = 制定恢复计划
action-present = 演示
    .help = 切换大屏演示
    .name = 大屏演示
action-press = 选定
    .help = 执行所选项
action-previous-page = 上一页
    .help = 上一页：更新的订单
    .name = 上一页
action-previous-part = 上一项
    .help = 上一个输入框或按钮
action-previous-view = 上一视图
    .help = 上一个视图
action-quit = 退出
    .help = 退出，压测进行中会先确认
    .name = 退出
action-quit-now = 退出
    .help = 立即退出
action-release = 释放
    .help = 强制释放锁
    .name = 释放
action-remove-consumer = 移除
    .help = 移除无消息且已失联的消费者
    .name = 移除消费者
action-repair = 修复
    .help = 修复已标记的秒杀，或全部
    .name = 修复对账差异
action-replay-letters = 重放
    .help = 重放已标记的或所选的死信
    .name = 重放死信
action-restock = 调整库存
    .help = 增加库存，或减少未售出的
    .name = 调整库存
action-rewind = 回退
    .help = 重新投递消息
    .name = 回退
action-run-job = 立即运行
    .help = 立即运行一次定时任务
    .name = 运行任务
action-rush = 压测
    .help = 用模拟买家对秒杀压测
    .name = 压测
action-sort-next = 排序
    .help = 按下一列排序
    .name = 排序
action-sort-turn = 反序
    .help = 反转排序方向
    .name = 反序
action-start = 开始
    .help = 立即开始未到时间的秒杀
    .name = 开始
action-stop-command = 中止
    .help = 做完当前一步后中止
    .name = 中止
action-suspend = 挂起
    .help = 挂起并回到终端，输入 fg 恢复
action-up = 上移
    .help = 上移一行
action-users = 用户
    .help = 显示或脱敏用户
    .name = 用户
action-zoom-in = 放大
    .help = 缩短图表时间范围
    .name = 放大图表
action-zoom-out = 缩小
    .help = 加长图表时间范围
    .name = 缩小图表
action-zoom-reset = 自动
    .help = 时间范围自动适应最近的订单
    .name = 图表自动缩放

## activity

activity-alarms = 告警
activity-all = 全部
activity-audit = { $key ->
    [balanced] 通过
    [off] 不符
    [in-flight] 在途
    [unknown] 未知
   *[other] { $text }
}
activity-commands = 操作
activity-event = { $key ->
    [voucher-create] 新建优惠券
    [voucher-buy] 购买优惠券
    [sale-create] 新建秒杀
    [sale-start] 开始秒杀
    [sale-pause] 暂停秒杀
    [sale-resume] 恢复秒杀
    [sale-end] 结束秒杀
    [sale-cut] 减少库存
    [sale-restock] 增加库存
    [sale-migrate] 迁入秒杀
    [sale-return] 迁回秒杀
    [rush] 压测
    [rush-stop] 停止压测
    [audit-repair] 对账修复
    [audit-repair-begun] 对账修复开始
    [pending-plan] 制定计划
    [pending-apply] 执行计划
    [pending-apply-begun] 执行计划开始
    [stream-rewind] 消费组回退
    [stream-rewind-begun] 消费组回退开始
    [stream-claim] 转移消息
    [stream-claim-begun] 转移消息开始
    [stream-remove-consumer] 移除消费者
    [stream-remove-consumer-begun] 移除消费者开始
    [order-pay] 支付订单
    [lock-release] 释放锁
    [job-run] 运行任务
    [job-pause] 暂停任务
    [job-resume] 恢复任务
    [dead-count] 统计死信
    [dead-replay] 重放死信
    [dead-replay-begun] 重放死信开始
    [dead-discard] 丢弃死信
    [dead-discard-begun] 丢弃死信开始
    [redis-away] Redis 不可达
    [redis-back] Redis 恢复
    [database-away] 数据库不可达
    [database-back] 数据库恢复
    [alarm-raised] 告警触发
    [alarm-cleared] 告警解除
    [sale-fixed] 秒杀字段已更正
    [sale-unreconciled] 秒杀未能修复
    [orders-wait] 订单等待落库
    [orders-written] 订单已落库
    [node-started] 节点启动
    [node-stopped] 节点停止
    [node-back] 节点恢复
    [node-dead] 节点失联
    [zone-changed] 时区变更
    [redis-reconciled] Redis 数据已补齐
    [partition-repaired] 分区已修复
    [users-create] 创建用户
    [token-create] 创建令牌
    [token-revoke] 吊销令牌
    [left-out] 省略
   *[other] { $event }
}
activity-figure = { $key ->
    [stock] 库存
    [db_stock] SQL 库存
    [admitted] 准入
    [persisted] 落库
    [undelivered] 未投递
    [pending] 待确认
    [dead] 死信
    [audit] 对账
   *[other] { $name }
}
activity-figures = 指标
activity-following = 跟随最新
activity-follows = 按 { KEY("last") } 跟随最新
activity-lines = { $count } 条
activity-log-is-empty-commands = 暂无记录。操作和告警会记录在这里。
activity-no-on-this-page-press = 本页没有{ $level }记录。按 { KEY("level") } 切换级别。
activity-node = { $at }，节点 { $node }
activity-not-given = 未填写
activity-on = 对象
activity-subject = { $key ->
    [jobs] 定时任务
    [lag] 积压
    [sales] 秒杀
    [audit] 对账
    [clock] 时钟
    [database] 数据库
    [dead-letters] 死信
    [consumer-group] 消费组
    [delivery] 同步
    [activity] 日志
    [replicas] 副本
    [time-zone] 时区
   *[other] { $subject }
}
activity-to = { $first } 至 { $last }
activity-unchanged = 未变
activity-user = 操作员
activity-what = 事件
activity-when = 时间
activity-who = 操作员

## admission

admission-no-answer = 未能及时收到应答（{ $reason }）；请重新发送请求，已准入的买家会得到订单号
admission-stopping = 引擎正在停止；请在其恢复运行后重新发送请求
admission-too-late = 未下单：请求已超时，或订单在应答前因未支付被关闭，请重新抢购
admission-late = Redis 在 { $ms } ms 后才回复，已超过支付时限；将用同一订单号重试
admission-unconfirmed = { $replicas } 个副本中目前只有 { $held } 个已保存该订单

## alarms

alarms-audit-failed =
    { $reader ->
        [overview] 对账不符：{ $finding }{ $more ->
                [0] {""}
               *[other] ；另有 { $more } 条
            }。按 { KEY("ledger") } 查看原因{ $repairable ->
                [true] 并修复
               *[false] {""}
            }。
        [presenter] 对账不符，按 { KEY("present") } 再按 { KEY("ledger") } 查看原因。
       *[status] 对账不符：{ $finding }{ $more ->
                [0] {""}
               *[other] ；另有 { $more } 条
            }；详见 'seckill audit'
    }
alarms-clock-skew =
    { $reader ->
        [overview] Redis 的时钟比{ $of ->
                [host] 本机
                [database] 数据库
               *[node] 节点 { $node } {""}
            }{ $side ->
                [ahead] 快
               *[behind] 慢
            } { $by }：秒杀按 Redis 的时钟开始和结束。请同步时钟（NTP）。
        [presenter] Redis 与{ $of ->
                [host] 本机
                [database] 数据库
               *[node] 节点 { $node } {""}
            }的时钟相差 { $by }。
       *[status] Redis 的时钟比{ $of ->
                [host] 本机
                [database] 数据库
               *[node] 节点 { $node } {""}
            }{ $side ->
                [ahead] 快
               *[behind] 慢
            } { $by }：秒杀按 Redis 的时钟开始和结束；请同步两台主机的时钟（NTP）
    }
alarms-consumer =
    { $reader ->
        [overview] { $consumer } { $state ->
                [dead] 已失联
                [unknown] 不属于已知节点，且无活动
               *[silent] 的节点在线，但不再读取消息
            }。{ $risk ->
                [lost] 先按 { KEY("ledger") } 恢复丢失的秒杀，再按 { KEY("plan-recovery") } 恢复消息。持有{" "}
                [none] 按 { KEY("pending") } 查看其消息，按 { KEY("plan-recovery") } 恢复。没有订单面临丢失，只待确认：
               *[unknown] 按 { KEY("pending") } 查看其消息，按 { KEY("plan-recovery") } 恢复。持有{" "}
            }{ $count } 条。
        [presenter] { $risk ->
                [none] 条消息只待确认，没有订单面临丢失
               *[unknown] { $state ->
                    [dead] 笔订单由失联节点持有
                    [unknown] 笔订单的持有者不是已知节点
                   *[silent] 笔订单由停滞的消费者持有
                }
            }，{ $risk ->
                [lost] 请先恢复丢失的秒杀。
               *[unknown] 按 { KEY("plan-recovery") } 恢复。
            }
       *[status] { $consumer } { $state ->
                [dead] 已失联，
                [unknown] 不属于已知节点，
               *[silent] {""}
            }持有 { $count } 条消息{ $state ->
                [silent] ，已 { $idle }未读取
               *[other] {""}
            }{ $risk ->
                [none] ，只待确认，没有订单面临丢失
                [some] ，其中最多 { $orders } 条的订单尚未落库
               *[unknown] {""}
            }；{ $risk ->
                [lost] 先用 'seckill audit --repair' 恢复丢失的秒杀，再恢复消息
               *[unknown] 恢复
            }：'seckill pending apply'
    }
alarms-damaged =
    { $reader ->
        [overview] Redis 数据丢失，尚未补齐：{ $short }。在此之前相关秒杀暂停准入。
        [presenter] Redis 丢失了数据，正在补齐。
       *[status] Redis 中的键互不一致：{ $keys }；相关秒杀在节点补齐前暂停准入（用 'seckill work' 启动节点）
    }
alarms-data-loss =
    { $reader ->
        [overview] { $keys ->
                [none] Redis 曾丢失数据：{ $parts }。
               *[other] Redis 曾丢失 { $keys }：{ $parts }。
            }{ $refused ->
                [0] {""}
               *[other] 按 { KEY("letters") } 查看死信。
            }{ $unknown ->
                [0] {""}
               *[other] 按 { KEY("activity") } 查看事件。
            }{ $lost ->
                [true] 有未关联订单的死信丢失，数量未知。
               *[false] {""}
            }{ $stuck ->
                [0] {""}
               *[other] 依次按 { KEY("pending") }、{ KEY("plan-recovery") } 处理其余待确认消息。
            }{ $again ->
                [0] {""}
               *[other] 同一批键一再丢失：'seckill doctor' 可查看 Redis 是否在淘汰键。
            }{ $open ->
                [0] { $keys ->
                        [none] 无需处理。
                       *[other] 'seckill doctor' 可显示 Redis 是否驱逐键。
                    }
               *[other] {""}
            }
        [presenter] Redis 曾丢失数据，{ $unknown ->
                [0] { $refused ->
                        [0] 已全部补回
                       *[other] { $refused } 笔订单无法兑现
                    }
               *[other] 可能遗漏部分买家
            }。
       *[status] Redis 丢失过数据，已按 SQL 和消息流补齐：{ $loss }{ $refused ->
                [0] {""}
               *[other] ；详见 'seckill dead list'
            }{ $unknown ->
                [0] {""}
               *[other] ；事件见 'seckill activity'
            }{ $stuck ->
                [0] {""}
               *[other] ；失联消费者持有 { $stuck } 条消息，请执行 'seckill pending apply'
            }{ $again ->
                [0] {""}
               *[other] ；同一批键一再丢失，每次都计入上述数字：'seckill doctor' 可查看 Redis 是否在淘汰键，否则是被其他程序删除
            }{ $open ->
                [0] { $keys ->
                        [none] ；无需处理
                       *[other] ；'seckill doctor' 可显示 Redis 是否驱逐键，否则是其他程序删除了它们
                    }
               *[other] {""}
            }
    }
alarms-dead-letters =
    { $reader ->
        [overview] 条死信等待人工处理。按 { KEY("letters") } 查看。
        [presenter] 条死信，按 { KEY("present") } 再按 { KEY("letters") } 查看。
       *[status] { $count } 条死信待人工处理：'seckill dead list'
    }
alarms-foreign-key =
    { $reader ->
        [overview] Redis 键 { $key } 被其他程序占用（{ $holds }）{ $kind ->
                [lock] ，无法加锁。请将该键改名。
               *[other] 。请将该键改名，再运行 'seckill audit --repair'。
            }
        [presenter] 其他程序覆盖了 Redis 中的秒杀键。
       *[status] { $found }
    }
alarms-job-failed =
    { $reader ->
        [overview] 前，任务 { $job } 上次运行失败。按 { KEY("jobs") } 查看原因，按 { KEY("run-job") } 重新运行：{ $why }
        [presenter] 有定时任务失败，按 { KEY("present") } 再按 { KEY("jobs") } 查看原因。
       *[status] 任务 { $job } 上次运行失败（{ $ago }前）：{ $why }；重新运行：'seckill jobs run { $job }'
    }
alarms-lag-high =
    { $reader ->
        [overview] 条积压。按 { KEY("stream") } 查看消费者，用 'seckill work' 增加节点。{ $drains ->
                [none] 积压没有下降。
               *[other] 预计 { $drains }后清空。
            }
        [presenter] 笔订单等待落库，按 { KEY("present") } 再按 { KEY("stream") } 查看。
       *[status] 消息积压 { $lag } 条{ $drains ->
                [none] 且没有减少
               *[other] ，按当前速度 { $drains }后清空
            }；'seckill work' 可增加节点
    }
alarms-no-group =
    { $reader ->
        [overview] 消费组不存在，待确认列表也随之丢失。运行中的节点会重建消费组并重新读取消息流。按 { KEY("stream") } 查看。
        [presenter] 消息流没有消费组。
       *[status] 消费组不存在，运行中的节点会重建
    }
alarms-no-reply-within-s = { $seconds } 秒内无应答
alarms-orders-wait =
    { $reader ->
        [overview] #{ $sale }：数据库不接受这场秒杀的订单；{ $waiting ->
                [0] 订单
               *[other] { $waiting } 单
            }保留，数据库处理好后自动落库：{ $reason }。
        [presenter] 一场秒杀的订单在等待数据库。
       *[status] 数据库不接受 #{ $sale } 的订单；{ $waiting ->
                [0] 订单
               *[other] { $waiting } 单
            }保留并自动重试：{ $error }；请在数据库中处理，之后自动落库
    }
alarms-oversold =
    { $reader ->
        [overview] { $sales }：Redis 中的买家多于库存总量，不再放行任何请求。按 { KEY("sales") } 后用 { KEY("restock") } 补足库存，再按 { KEY("ledger") } 修复。
        [presenter] 一场秒杀的买家多于库存总量，保持关闭。
       *[status] { $sales }：Redis 中的买家多于库存总量，不再放行任何请求；用 'seckill sale restock' 补足库存，再运行 'seckill audit --repair'
    }
alarms-redis-away =
    { $reader ->
        [overview] Redis 不可达，显示的是旧数据，正在重试：{ $reason }。
        [presenter] Redis 不可达，画面为旧数据。
       *[status] { $error }
    }
alarms-redis-read-only =
    { $reader ->
        [overview] Redis 拒绝写入，秒杀无法进行：{ $step }（{ $reason }）。
        [presenter] Redis 拒绝写入：买家在等待。
       *[status] { $error }
    }
alarms-sale-unreadable =
    { $reader ->
        [overview] #{ $sale }：这场秒杀在 SQL 中有一行无法读取，因此不显示、不对账、不修复。请更正这一行：{ $reason }。
        [presenter] 一场秒杀在 SQL 中有一行无法读取。
       *[status] 秒杀 { $sale } 在 SQL 中有一行无法读取，因此不显示、不对账、不修复；请更正这一行：{ $error }
    }
alarms-sales-lost =
    { $reader ->
        [overview] SQL 丢失了 { $sales }，而 Redis 中仍有：不再放行任何请求{ $orders ->
                [0] {""}
               *[other] ，{ $orders } 笔已准入订单不在 SQL 中
            }。按 { KEY("ledger") } 修复。
        [presenter] SQL 丢失了一场秒杀；先按 { KEY("present") } 再按 { KEY("ledger") } 恢复。
       *[status] SQL 丢失了 { $sales }，而 Redis 中仍有：不再放行任何请求{ $orders ->
                [0] {""}
               *[other] ，{ $orders } 笔已准入订单不在 SQL 中
            }；从 Redis 恢复：'seckill audit --repair'
    }
alarms-server-back =
    { $reader ->
        [overview] { $server } 已恢复，中断了 { $away }。
        [presenter] 服务器已恢复，中断了 { $away }。
       *[status] { $server } 已恢复，中断 { $away }
    }
alarms-server-lost =
    { $reader ->
        [overview] 未取得 Redis { $address } 的数据，{ $count } 个分区（{ $numbers }）的状态未知，正在重试：{ $reason }。
        [presenter] 一台 Redis 服务器不可达，部分数据未知。
       *[status] { $error }
    }
alarms-unwitnessed =
    { $reader ->
        [overview] { $what }。按 { KEY("ledger") } 查看对账。
        [presenter] 没有节点在线时 Redis 重启过，可能丢失部分准入。
       *[status] { $what }；请用 'seckill orders show' 核对买家手中的订单号
    }
alarms-sql-away =
    { $reader ->
        [overview] 数据库不可达，订单暂存在消息流中：{ $reason }。
        [presenter] 数据库不可达：订单在等待。
       *[status] { $error }
    }
alarms-sql-locked =
    { $reader ->
        [overview] { $waiting ->
                [0] 数据库被其他程序锁定，订单在消息流中等待，锁释放后运行中的节点自动继续。
               *[other] 条消息在等待：数据库被其他程序锁定，锁释放后运行中的节点自动继续。
            }
        [presenter] 数据库被其他程序锁定：订单在等待。
       *[status] { $error }{ $waiting ->
                [0] {""}
               *[other] ；{ $waiting } 条消息等待写入
            }
    }
alarms-sql-read-only =
    { $reader ->
        [overview] 数据库拒绝写入，订单暂存在消息流中：{ $reason }。
        [presenter] 数据库拒绝写入：订单在等待。
       *[status] { $error }
    }
alarms-unconfirmed =
    { $reader ->
        [overview] 买家得不到应答：{ $state ->
                [unknown] Redis 未告知哪些副本已保存订单（{ $reason }）。
               *[few] { $wanted } 个副本中只有 { $replicas } 个确认订单。请接入副本，或调低 engine.wait_replicas。
            }
        [presenter] Redis 无法确认订单，买家在等待。
       *[status] { $state ->
                [unknown] Redis 未告知哪些副本已保存订单，买家得不到应答；请允许其用户执行 WAIT，或将 engine.wait_replicas 设为 0（{ $error }）
               *[few] { $wanted } 个副本中只有 { $replicas } 个确认订单，买家得不到应答；请接入副本，或调低 engine.wait_replicas
            }
    }
alarms-undelivered =
    { $reader ->
        [overview] { $sales } 已在 SQL 中更改，Redis 尚未确认，仍用旧版本。Redis 恢复写入后由运行中的节点同步。
        [presenter] 一项秒杀变更尚未同步到 Redis。
       *[status] { $count } 项秒杀更改已写入 SQL、尚未同步到 Redis：{ $sales }；Redis 可写后由运行中的节点同步
    }
alarms-zones-differ =
    { $reader ->
        [overview] 各节点要求的定时任务时区不同：{ $zones }。请统一 engine.jobs.time_zone。
        [presenter] 各节点要求的时区不同。
       *[status] 各节点要求的时区不同：{ $zones }；定时任务以最后启动的节点的时区为准；请在所有节点设置同一个 engine.jobs.time_zone
    }

## ask

ask-apply-plan =
    { $entries }
    { $verdicts }
    完成后：待确认 { $pending } 条，死信 { $letters } 条，SQL 中订单 { $orders } 笔。{ $rebuilt ->
        [0] {""}
       *[other] { $rebuilt } 条将重新入队，随后写入。
    }
    .title = 执行此计划？
    .button = 执行
ask-cancel-launch =
    { $launch }
    不会开始秒杀，也不发送请求。确认之前倒计时继续。
    .title = 取消这次开抢？
    .button = 取消开抢
ask-claim =
    { $count } 条待确认消息将变更持有者。
    { $parts }
    { $gone ->
        [0] {""}
       *[other] { $gone } 条已不再待确认，或已由其持有。
    }
    不计入投递次数。新持有者会在数秒内处理；已在 SQL 中的直接确认。
    .title = 转移这些消息？
    .button = 转移
ask-compensate-letters =
    { $about }：{ $done } 条永久删除{ $stay ->
        [0] {""}
       *[other] ，保留 { $stay } 条
    }。
    { $verdicts }
    { $orders } 笔订单将被取消，库存退还。此操作无法撤销。
    .title = 取消订单并退还库存？
    .button = 退还
ask-create-sale =
    { $title }
    { $stock } 件，每人限购 { $limit } 单{ $shards ->
        [1] {""}
       *[other] ，分为 { $shards } 个分片
    }。
    { $begin ->
        [none] 立即开放抢购。
       *[other] 开放时间：{ $begin }。
    }
    { $end ->
        [none] 不设结束时间。
       *[other] 结束时间：{ $end }。
    }
    .title = 新建这场秒杀？
    .button = 新建
ask-discard-letters =
    { $about }：{ $done } 条永久删除{ $stay ->
        [0] {""}
       *[other] ，保留 { $stay } 条
    }。
    { $verdicts }
    此操作无法撤销。
    .title = 丢弃这些死信？
    .button = 丢弃
ask-end-sale =
    { $name }
    未售出 { $left }；此后拒绝所有买家。
    此操作无法撤销。
    .title = 永久结束这场秒杀？
    .button = 结束
ask-launch-now =
    立即执行，不等倒计时结束：
    { $events }
    .title = 立即开抢？
    .button = 开抢
ask-load-test =
    { $name }
    { $plan }
    { $phase ->
        [running] 剩余 { $left }。会产生真实订单并占用库存。
        [sold_out] 库存为零：所有请求都会返回售罄。
        [paused] 秒杀已暂停：所有买家都会被拒绝。
        [planned] 秒杀尚未开始：买家会被拒绝。
       *[other] 秒杀已结束：所有买家都会被拒绝。
    }
    .title = 开始压测？
    .button = 开始
ask-pause-job =
    { $name }
    恢复之前，所有节点都不再运行它。
    .title = 暂停这个任务？
    .button = 暂停
ask-pause-sale =
    { $name }
    剩余 { $left }。恢复前拒绝所有买家；已准入的订单照常落库。
    .title = 暂停这场秒杀？
    .button = 暂停
ask-pay-order =
    订单 { $id }
    { $buyer }
    自 { $written } 起未支付。支付后不再因超时关闭；此处无法撤销。
    .title = 支付该订单？
    .button = 支付
ask-quit-during-command =
    { $action }：已完成 { $done } / { $planned }。
    当前一步会做完，其余不变，可用新计划处理。
    .title = 操作执行中，仍要退出？
    .button = 退出
ask-quit-during-launch =
    { $launch }
    退出会取消这次开抢，不会开始任何秒杀。
    .title = 已定时开抢，仍要退出？
    .button = 退出
ask-quit-during-load-test =
    已发出 { $sent } / { $planned } 次请求。
    { $unsent ->
        [0] 已准入的订单留在消息流中，由下一个运行的节点落库。
       *[other] 剩余请求不再发送。已准入的订单留在消息流中，由下一个运行的节点落库。
    }
    .title = 压测进行中，仍要退出？
    .button = 退出
ask-release-lock =
    { $held }
    { $holder ->
        [orphan] 持有者 { $node } 已失联（无心跳）。
        [alive] 持有者 { $node } 在线：其任务将被取消，之后的写入会被拒绝。
       *[unknown] 持有者 { $node } 不是已知节点，可能仍在运行：其任务将被取消，之后的写入会被拒绝。
    }
    { $waiting ->
        [0] 没有等待者。
       *[other] { $waiting } 个等待者，释放后由下一个获得。
    }
    .title = 强制释放这把锁？
    .button = 释放
ask-remove-consumer =
    { $name }
    其节点未运行，且不持有消息。将从 { $groups } 个分区的消费组中移除。
    .title = 移除该消费者？
    .button = 移除
ask-repair-ledger =
    { $scope ->
        [none] {""}
        [marked] 已标记的 { $sales } 场，{ $found } 处差异：{ $named }
       *[other] { $sales } 场，{ $found } 处差异：{ $named }
    }
    { $repairs }
    { $faults ->
        [0] {""}
       *[other] 同时修复 { $faults } 处分区故障。
    }
    { $left ->
        [0] {""}
       *[other] 另有 { $left } 处差异不能自动修复，请看详情。
    }
    { $pauses ->
        [true] 补齐数据期间该场暂停准入，其他秒杀不受影响。
       *[false] {""}
    }
    .title = 修复对账差异？
    .button = 修复
ask-replay-letters =
    { $about }：{ $done } 条重放到消息流{ $stay ->
        [0] {""}
       *[other] ，保留 { $stay } 条
    }。
    { $verdicts }
    引擎会再次尝试让这些订单落库。
    .title = 重放这些死信？
    .button = 重放
ask-restock =
    { $name }
    { $change ->
        [adds] 增加 { $pieces } 件：
       *[removes] 减少 { $pieces } 件未售出的库存：
    }总库存 { $initial } → { $after }。
    当前未售出 { $left }。
    .title = 调整库存？
    .button = 调整
ask-resume-job =
    { $name }
    恢复按计划运行；暂停期间错过的不补跑。
    .title = 恢复这个任务？
    .button = 恢复
ask-resume-sale =
    { $name }
    { $left }将在秒杀时段内重新开放。
    .title = 恢复这场秒杀？
    .button = 恢复
ask-rewind =
    { $entries }
    { $groups }
    { $counts }
    .title = 回退消费组？
    .button = 回退
ask-run-job =
    { $name }
    用途：{ $about }。
    立即在本节点运行；如已在其他节点运行则不重复。
    .title = 立即运行这个任务？
    .button = 运行
ask-schedule-launch =
    确认后 { $seconds } 秒，以 Redis 时钟为准：
    { $events }
    在此之前不做任何更改，按 { KEY("abort") } 可取消。
    .title = 安排这次开抢？
    .button = 安排
ask-start-sale =
    { $name }
    { $left }立即开放抢购，早于计划时间。
    .title = 立即开始这场秒杀？
    .button = 开始
ask-stop-command =
    { $action }：{ $done } / { $planned }。
    当前一步会做完，已完成的不撤销；其余可用新计划处理。
    .title = 中止此操作？
    .button = 中止
ask-stop-load-test =
    { $name }
    已发出 { $sent } / { $planned } 次请求，其余不再发送。
    已准入的订单照常落库。
    .title = 停止压测？
    .button = 停止
ask-stop-load-test-and-pause =
    { $name }
    已发出 { $sent } / { $planned } 次请求，其余不再发送。
    秒杀暂停：恢复前拒绝所有买家。
    已准入的订单照常落库。
    .title = 停止压测并暂停秒杀？
    .button = 停止

## attach

ask-suspend =
    本进程的节点也会停住：它的买家得不到应答，它持有的消息要等其他节点接管，或等到执行 fg。
    .title = 挂起控制台？
    .button = 挂起
attach-alone = 这里只显示所接入的服务；按 { KEY("quit") } 退出，运行 'seckill' 打开控制台
attach-back-archived = 引擎中的秒杀 #{ $voucher } 已归档：已经迁回，或结束后已从 Redis 移除
attach-back-ask = 在引擎中永久结束秒杀 #{ $voucher }「{ $title }」，并迁回原服务（剩余 { $stock } 件，买家 { $live } 位）？
attach-back-before = 秒杀 #{ $voucher } 此前已迁回原服务，未做任何更改。
attach-back-changed = 待更新状态
attach-back-conflict = 有 { $count } 笔订单在迁出后被原服务修改，第一笔为 { $order }；请核实以哪一边为准，并更正另一边：用 'seckill orders pay'，或修改原服务表中的状态
attach-back-entries = 原服务的消息流中有该秒杀的消息：{ $count } 条，第一条为 { $entry }，请先处理
attach-back-foreign = 秒杀 #{ $voucher } 不是从该服务迁入的，或已经迁回
attach-back-in-flight = 引擎中有在途订单 { $entries } 笔、死信 { $dead } 条，请等待消费者处理完毕，并重放或丢弃死信
attach-back-limit = 有 { $count } 名用户持有多笔有效订单（例如 { $user }），而原服务的集合每名用户只能有一笔
attach-back-missing = 待写入订单
attach-back-moving = 写入期间原服务修改了该秒杀的库存或订单。请重新运行该命令
attach-back-returning = 有 { $orders } 笔已关闭订单的库存尚未归还 Redis，请稍后重试
attach-back-running = 秒杀 #{ $voucher } 在引擎中正在进行，请先暂停或结束
attach-back-taken = 原服务的表中有 { $count } 个订单号属于其他用户，第一个为 { $order }
attach-back-unclosed = 有 { $count } 笔已关闭订单在原服务的表中仍有效，第一笔为 { $order }；配置档案没有对应的状态，请设置 order.status 和 order.closed
attach-back-unfinished = 秒杀 #{ $voucher } 尚未完全迁入引擎，请先不带 --back 运行 'seckill attach migrate'
attach-back-unknown = 原服务的表中有 { $count } 笔订单不在引擎中，第一笔为 { $order }
attach-between = 秒杀 #{ $voucher } 在原服务和引擎中均未售卖（{ $key }）：迁移正在进行，或已中断。若迟迟没有结束，请再次运行同一迁移命令，以完成或撤销迁移。
attach-body-gone = 确认之前已被裁剪或删除
attach-buyers-with-closed-order = 秒杀 #{ $voucher }：{ $users } 位买家在 SQL 中只有已关闭的订单，也没有在途消息（例如用户 { $user }）。若他们再次下单，服务可能未写入新订单便确认了消息：消息若仍在流中，恢复操作会补写订单；否则是服务尚未将库存归还 Redis。在买家移出集合之前，这些库存不会再次售出。
attach-buyers-without-order = 秒杀 #{ $voucher }：{ $users } 位买家在 SQL 中没有订单，也没有在途消息（例如用户 { $user }）。若消息仍在流中，且此前未被放弃，恢复操作会补写订单；其余请手动补写，或将买家移出集合并归还库存。
attach-cannot-read-profile = 无法读取配置档案 { $path }（{ $why }），请检查 --profile
attach-cluster = 该 Redis 是集群，而此类服务的键分布在多个槽；请连接服务所用的 Redis
attach-column-buyers = 买家
attach-column-closed = 仅已关闭
attach-column-in-flight = 在途
attach-column-no-buyer = 无买家
attach-column-no-order = 无订单
attach-column-orders-per-second = 订单/秒
attach-commit-unknown = 数据库没有确认提交（{ $reason }），无法判断提交是否成功。请再次运行该命令：它会先查看 SQL，已有的不会重复写入
attach-correct-buyers = 确认服务所用的集合，并改正配置档案中的 keys.buyers
attach-correct-column = 改正配置档案中的列名，或恢复该列
attach-correct-dates = 改正 sale.begin 和 sale.end
attach-correct-fields = 改正 [entry]；若不是服务写入的消息，请删除它
attach-correct-group = 改正 stream.group
attach-correct-key = 确认是哪个程序写入该键，或改正键名
attach-correct-table = 改正 [tables]，或以 --database 指定服务所用的数据库
attach-counter = { $key }，有过期时间
attach-counter-alarm = 订单号计数器 { $key } 永不过期：每天留下一个键。请设置过期时间。
attach-counter-stays = { $key } 永不过期：每天留下一个键
attach-create-group = 执行 XGROUP CREATE { $key } { $group } 0
attach-database-locked = 数据库被其他程序锁住（可用 fuser FILE 查找）。请在锁释放后再次运行该命令
attach-dead-letters = { $stream } 中有 { $count } 条死信待处理。请用 'seckill attach recover --dead-letters' 查看，排除原因后用 --replay LETTER --operate 重放；无法重放的用 XDEL 删除。
attach-dead-letters-unread = 恢复操作的死信数未知：--redis 的用户无权读取 { $stream }。
attach-duplicate-orders = 秒杀 #{ $voucher }：{ $users } 名用户有多笔有效订单。请各保留一笔，取消其余，并为用户和优惠券建立唯一索引。
attach-entries = 已读取 { $count } 条消息，字段有效
attach-every-without-screen = --every 用于屏幕；请去掉它，或去掉子命令
attach-first-locks = 只读取前 { $count } 把锁，可能还有更多。
attach-foreign-key = 键 { $key } 的内容不符（{ $holds }），服务会因此出错，请确认是哪个程序写入的。
attach-future-ids = 订单号 { $order } 中的时间比现在晚 { $minutes } 分钟：服务把本地时间当成了 UTC，或其时钟或订单号的起始时间有误。请改用 UTC 并修正起始时间；修正前请确认新订单号不会与已有的重复。
attach-group = 消费组 { $group }
attach-group-lost = 原服务的消费组不存在，其待确认消息也已丢失。请运行“seckill attach recover”：它会在第一条没有订单的消息之前创建消费组
attach-group-missing = 消费组 { $group } 不存在，消息不会投递
attach-head-admitted = 准入/秒
attach-head-closed = 仅已关闭
attach-head-kind = 类型
attach-head-no-buyer = 无买家
attach-head-no-order = 无订单
attach-head-orders = 订单
attach-holds-other = 键 { $key } 的内容不符（{ $holds }），无法读取
attach-idle-consumers = 消费组中有 { $count } 个消费者没有待确认消息，且长时间没有读取（例如 { $consumer }，已有 { $minutes ->
        [0] { $seconds } 秒
       *[other] { $minutes } 分钟
    }）：服务很可能每次启动都使用新名称。请为每个实例固定名称，并用 XGROUP DELCONSUMER 删除失效的消费者。
attach-invalid-profile = 配置档案 { $path } 有误：{ $why }
attach-key-without-part = { $key } 必须包含一次 { $part }
attach-lag = 未投递的消息已等待 { $seconds } 秒{ $lag ->
        [0] {""}
       *[other] （积压 { $lag } 条）
    }，请检查消费者是否在运行，以及处理速度是否足够。
attach-letter-ask = 将死信 { $letter } 的内容重新加入服务的消息流？
attach-letter-changed = 死信 { $letter } 未重放：不断有用户下单，无法确认该用户没有其他消息；请在下单减少后重试
attach-letter-entry = 死信 { $letter } 未重放：用户 { $user } 在秒杀 #{ $voucher } 中还有在途消息（{ $entry }），而只占一件库存；请先处理该消息
attach-letter-fault = 死信 { $letter } 未重放：{ $reason }
attach-letter-missing = 消息流 { $stream } 没有可重放的死信 { $letter }；请用 --dead-letters 列出
attach-letter-more = 死信 { $letter } 未重放：在途消息多于一次读取的上限，其中可能有该用户的消息；请先等待消费者处理
attach-letter-moved = 死信 { $letter } 所属的秒杀 #{ $voucher } 正在迁移或已迁入引擎，服务不得处理；请先迁回
attach-letter-no-body = 死信 { $letter } 没有内容：此前已被裁剪或删除，无法重放
attach-letter-replayed = 死信 { $letter } 已重新加入消息流，成为消息 { $entry }；将由服务的消费者或下一次恢复处理。
attach-letter-sold-out = 死信 { $letter } 未重放：用户 { $user } 已不是秒杀 #{ $voucher } 的买家，且 Redis 已无库存；请增加库存，或用 XDEL 删除死信
attach-letter-unreadable = 死信 { $letter } 的订单号、用户或秒杀无法识别，不能生成订单；请手动更正订单，并用 XDEL 删除死信
attach-letter-written = 死信 { $letter } 的订单 { $order } 已在 SQL 中；请删除死信：XDEL { $stream } { $letter }
attach-letters-more = 还有更多，请增大 --max。
attach-limits-before = 子命令之前的限制选项用于屏幕；请放到 status 之后，或去掉子命令
attach-local-ids = 订单号（例如 { $order }）中的时间与消息时间相差 { $hours } 小时：服务把本地时间当成了 UTC。时区变化时订单号可能重复，请改用 UTC。
attach-locks = { $pattern }：Redisson 锁 { $hashes } 把，普通锁 { $strings } 把
attach-memory-queue = 没有配置消息流：订单在服务的内存队列中，无法查看
attach-more-buyers = 秒杀 #{ $voucher } 的买家和订单未比较：买家超过每次最多读取的 { $compared } 位。请调大 --compare。
attach-more-entries = 买家未比较：未投递或待确认的消息超过 { $entries } 条。请调大 --entries。
attach-more-keys = 尚未找到全部锁：--watch 每次会继续检查其他键。
attach-more-orders = 买家和订单未比较：订单超过每次最多读取的 { $compared } 笔。请调大 --compare。
attach-move-again = 秒杀 #{ $voucher } 曾迁入该引擎并已迁回，其数据库仍保留当时的订单；请指定使用其他数据库的引擎
attach-move-aside = 恢复时已放弃该秒杀的 { $count } 条消息，其用户没有其他订单，第一条为 { $letter }；请先处理，或加上 --leave-out
attach-move-ask = 将秒杀 #{ $voucher }「{ $title }」迁入引擎（剩余 { $stock } / { $initial } 件）？原服务将不能再售卖。
attach-move-before = 秒杀 #{ $voucher } 此前已迁入引擎，未做任何更改。
attach-move-carried = 原服务此后收到的 { $payments } 笔支付已记入引擎。
attach-move-changed = 准备期间秒杀发生了变化：原服务仍在售卖，或消费者仍在运行。库存键已恢复，未迁移任何数据。请停止原服务后重新运行
attach-move-closed = 有 { $count } 笔已关闭的订单，第一笔为 { $order }；其库存可能已再次售出，请先删除这些行或改正状态
attach-move-consumer = 消费者 { $consumer } 在 { $seconds } 秒前还在读取消息；请停止原服务的消费者，或调整 --quiet
attach-move-elsewhere = 键 { $key } 表明该秒杀已迁入另一个引擎，请指定该引擎的 Redis 和数据库
attach-move-engine = 引擎
attach-move-exists = 引擎的数据库中已有优惠券 #{ $voucher }
attach-move-fenced = 上次迁移中断，秒杀 #{ $voucher } 两边均已停售；请去掉 --dry-run 再次运行，以完成或撤销迁移
attach-move-former = 优惠券编号 { $voucher } 在引擎的旧版本中属于秒杀 #{ $sale } 的一个分片，旧消息可能仍使用该编号：无法以此编号迁移，请改用其他优惠券编号出售
attach-move-groups = 还有其他消费者组在读取消息流 { $stream }：{ $names }。迁移会删除该秒杀的消息，这些组将读不到；请先停止它们的程序并删除这些组
attach-move-initial = 原服务记录的初始库存为 { $stated }，而 SQL 中库存与有效订单合计为 { $initial }
attach-move-interrupted = { $why }。秒杀 #{ $voucher } 可能两边均已停售：请再次运行该命令，以完成或撤销迁移
attach-move-keys = 引擎的 Redis 中已有秒杀 #{ $voucher } 的键（{ $key }），可能有节点正在售卖；请使用与该 Redis 对应的数据库
attach-move-lost = 键 { $key } 表明秒杀 #{ $voucher } 已迁入此引擎，但其数据库中没有该秒杀：是否恢复过旧备份？请在引擎中恢复该秒杀；若应由原服务继续售卖，请删除该键
attach-move-memory = 没有配置消息流：订单可能在服务的内存队列中，无法查看。请停止原服务，并加上 --service-stopped
attach-move-no-clients = --redis 的用户无权执行 CLIENT LIST 或 INFO 命令，无法查看用 XREADGROUP 读取的客户端。请停止服务并加上 --service-stopped，或授予该权限
attach-move-no-mark = 键 { $key } 表明秒杀曾在迁移，引擎中也有同编号的秒杀，但键 { $mark } 不存在，无法判断是否为同一秒杀。请对比两侧，并删除不应销售一侧的库存
attach-move-no-order = 有 { $count } 位买家既没有订单也没有消息（例如用户 { $user }）。请先补写订单，或加上 --leave-out 将其库存重新出售
attach-move-no-sale = 原服务的 SQL 中没有秒杀 #{ $voucher }
attach-move-no-time = { $count } 笔订单没有下单时间：引擎记为迁移的时间，未支付的订单因此从迁移时起重新计算支付期限。
attach-move-not-loaded = 秒杀 #{ $voucher } 在 Redis 中没有库存（{ $key }），剩余数量未知，请先加载库存；若其他引擎中有该场秒杀则不要加载，Redis 可能丢失了那次迁移的标记
attach-move-not-proved = 另一侧有 { $orders } 笔订单中的 { $matching } 笔{ $differing ->
    [0] {""}
   *[other] ，状态不一致 { $differing } 笔
}{ $stock_matches ->
    [true] {""}
   *[false] ，库存不一致
}，未做清理；请比较两侧后重新运行。
attach-move-number = 有 { $count } 个值不能作为引擎的编号，第一个为 { $value }
attach-move-oversold = 该秒杀已超卖：{ $initial } 件，订单 { $sold } 笔
attach-move-overtaken = 秒杀 #{ $voucher } 已由另一次 'seckill attach migrate' 接管，或其键被修改。请重新执行该命令
attach-move-possible = 可以迁移。未做任何更改。
attach-move-progress = 一秒之内有消息被投递或确认：消费者仍在运行，请停止原服务的消费者
attach-move-proved = 迁移完成：另一侧有 { $orders } 笔订单中的 { $matching } 笔，用户和订单号均相同。
attach-move-read = 有客户端不时用 XREADGROUP 读取消息。请停止原服务的消费者；如果它属于其他服务，请加上 --service-stopped
attach-move-replica = 原服务的数据库是从库，可能有延迟，写入它的数据也不会到主库。请用 --database 指定主库；若该服务器已提升为主库，请先清除其复制源（RESET REPLICA ALL）
attach-move-read-only = 原服务的数据库不接受写入（{ $setting } 为 { $value }）：从库可能有延迟，会丢失订单或支付。请用 --database 指定主库
attach-move-reads = 客户端 { $address } 正在用 XREADGROUP 读取消息。请停止原服务的消费者；如果它属于其他服务，请加上 --service-stopped
attach-move-recovery = 正在恢复该消息流，请等待其完成
attach-move-refused = 未迁移该秒杀。
attach-move-reloaded = 秒杀已迁移或正在迁移，但键 { $key } 又出现了：原服务重新加载了库存。请停止原服务，删除该键后重新运行
attach-move-returning = 秒杀 #{ $voucher } 正在迁回原服务：请先用 'seckill attach migrate --back' 完成
attach-move-same-database = 原服务的数据库属于某个引擎；两侧必须使用各自的数据库
attach-move-same-id = 有 { $count } 个订单号属于两名用户，第一个为 { $order }
attach-move-same-keys = 配置档案中的键 { $key } 属于引擎
attach-move-service = 原服务
attach-move-several = 有 { $count } 名用户持有多笔订单（例如 { $user }），请先各保留一笔
attach-move-status = 有 { $count } 笔订单的状态是引擎没有的（例如 { $status }）
attach-move-stock = 库存不符：Redis 中剩余 { $stock } 件、买家 { $buyers } 位，SQL 中剩余 { $sql_stock } 件、有效订单 { $orders } 笔，请先改正
attach-move-stray = 有 { $count } 条消息的用户不在买家集合中，第一条为 { $entry }，请先处理
attach-move-taken = 引擎的数据库中已有 { $count } 个相同的订单号，第一个为 { $order }
attach-move-too-many = 买家或消息超过 { $most }
attach-move-unfinished = 秒杀 #{ $voucher } 已在引擎中，但原服务尚未清理；请去掉 --dry-run 重新运行
attach-move-unmarked = 无法判断秒杀 #{ $voucher } 是否已迁入此引擎：引擎中有同号的秒杀，而 Redis 中既没有库存（{ $key }），也没有标记（{ $mark }，可能已丢失）。请勿加载库存。请按订单号比对两个数据库中该场秒杀的订单（tb_voucher_order）：若引擎中有原服务的订单，则已迁移，请恢复标记（SET { $mark } '{ $value }'）后再次运行；否则引擎中是另一场同号的秒杀，请删除它或指定其他引擎
attach-move-unread-orders = 表 { $table } 中有引擎无法表示的订单号
attach-move-unreadable = 有 { $count } 条在途消息无法读取，第一条为 { $entry }；可能是订单，请先处理或删除
attach-moved-loaded = 秒杀 #{ $voucher } 已标记为迁入引擎，但原服务的 Redis 中有它的库存（{ $key }）：两侧可能同时售卖。请停止原服务，并对该秒杀再次运行 'seckill attach migrate'（加上 --dry-run），它会指出下一步。
attach-no-buyers = 没有集合 { $key }：还没有订单，或 keys.buyers 有误
attach-no-column = 表 { $table } 缺少列 { $columns }
attach-no-counter = { $key } 不存在：今天还没有订单，或用了其他计数器
attach-no-dates = 秒杀 #{ $voucher } 的日期无法识别，不知道是否进行中
attach-no-entries = 消息流为空，未比较字段
attach-no-field = 缺少字段 { $name }
attach-no-file = 文件 { $path } 不存在，请更正 --database
attach-no-group = 消息流 { $stream } 的消费组 { $group } 不存在，{ $length } 条消息未投递。请创建：XGROUP CREATE { $stream } { $group } 0
attach-no-group-name = stream.group 为空；请填写消费组，或将 stream.key 也留空
attach-no-initial = 没有配置该列：只有库存为负时才能发现超卖；两侧都退回了两次的库存无法发现
attach-no-lease = { $count ->
        [1] 锁 { $key } 没有租期
       *[other] { $count } 把锁没有租期（例如 { $key }）
    }：持有者崩溃后永远不会释放。请确认持有者，再删除该键。
attach-no-lock-key = 没有配置锁
attach-no-locks = 目前没有持有中的锁 { $pattern }（订单只持有几毫秒），锁的类型未知
attach-no-number = 字段 { $name } 不是数字
attach-no-optional = 表 { $table } 没有列 { $columns }：迁移时无法带上其值；缺少 order.paid 时，也无法发现已支付却被关闭的订单
attach-no-sales = 没有秒杀，未比较数值
attach-no-scratch = 无法在 { $path } 中创建临时目录（{ $error }）
attach-no-servers = 请以 --redis 和 --database 指定服务所用的 Redis 和数据库
attach-no-stock = 没有键 { $pattern }：没有加载任何秒杀，或 keys.stock 有误
attach-no-stock-yet = 已检查 { $keys } 个键，没有 { $pattern }
attach-no-stream = { $key } 不存在：还没有订单，或订单在服务的内存队列中，无法查看（--profile 002）
attach-no-table = 表 { $table } 不存在
attach-no-user-id = 集合 { $key } 含有 { $member }，不是用户编号，无法比较买家和订单
attach-not-a-number = 列 { $column } 的值 { $value } 不是整数
attach-not-loaded = 秒杀 #{ $voucher } 正在进行，但 Redis 中没有库存（{ $key }），无法抢购。无法判断它是否已迁入引擎：加载库存之前，请先运行 'seckill attach recover'，它会说明如何判断。
attach-not-released = { $count ->
        [1] 锁 { $key } 一直没有释放
       *[other] { $count } 把锁一直没有释放（例如 { $key }）
    }，而处理一笔订单只需几毫秒；租期还剩 { $seconds } 秒。若持有者在运行，请重启它；若已崩溃，请等待或删除该键。
attach-not-trimmed = 消息流 { $stream } 有 { $acknowledged } 条已确认的消息，从未裁剪，会占满 Redis 内存。请裁剪到最早的待确认消息之前。
attach-order-ids-differ = 秒杀 #{ $voucher }：{ $users } 名用户在 SQL 中的订单号与消息中的不同（例如用户 { $user }，消息 { $entry }）：可能是服务为一次购买生成了两个订单号，买家得到的订单号查不到订单；也可能是服务拒绝了第二次购买。请用消息中的订单号写入订单。
attach-orders-without-buyer = 秒杀 #{ $voucher }：{ $users } 名用户在 SQL 中有订单，却不在 Redis 的买家集合中（例如用户 { $user }），可以再次抢购。请补入集合。
attach-other-fields = 消息 { $entry } { $why }；其字段为 { $names }
attach-other-groups = 消费组 { $group } 不存在，现有 { $names }
attach-other-profile = 存在 { $key }，与配置档案 { $profile } 相符：请使用 --profile { $profile }，或改正配置档案中的 { $setting }
attach-outside-dates = 秒杀 #{ $voucher }：最新订单中有 { $count } 笔在开始之前或结束之后被接受（消息 { $entry }）：脚本没有检查时间。请在秒杀未进行时删除 Redis 中的库存，并检查配置档案的 time_zone。
attach-oversold = 秒杀 #{ $voucher } 已超卖：库存为 { $stock }。请改正库存；若仍在进行，请先暂停。
attach-oversold-orders = 秒杀 #{ $voucher } 已超卖：库存 { $initial } 件，有效订单 { $orders } 笔。请取消多出的订单；若仍在进行，请先暂停。
attach-paid-closed = 秒杀 #{ $voucher }：{ $orders } 笔订单已支付，却被当作未支付关闭（例如订单 { $order }）：关单任务没有检查状态。请退款或恢复订单，关单时加上“未支付”的条件。
attach-phase-moved = 已迁出
attach-phase-unknown = 秒杀 #{ $voucher } 的日期无法识别：不知道是否进行中，也无法发现时间之外的订单。
attach-pieces-differ = 秒杀 #{ $voucher }：Redis 中库存与买家之和为 { $in_redis }，SQL 中库存与有效订单之和为 { $in_sql }。已关闭订单的库存退回了两次，或没有退回。请核对已关闭的订单并改正库存。
attach-pieces-initial = 秒杀 #{ $voucher }：SQL 中库存与有效订单之和为 { $in_sql }，初始库存却是 { $initial }。已关闭订单的库存退回了两次，或没有退回。请改正库存。
attach-poison = { $count ->
        [1] 1 条消息无法处理：
       *[other] { $count } 条消息无法处理，最早的是
    }{ $entry }：{ $why }。执行 'seckill attach recover --operate' 会将其复制到死信。
attach-poison-gone = { $count ->
        [1] 1 条消息无法处理：
       *[other] { $count } 条消息无法处理，最早的是
    }{ $entry }：确认之前已被裁剪或删除。执行 'seckill attach recover --operate' 会将其复制到死信；若 SQL 中没有其订单，则订单已丢失。
attach-replica = 数据库是从库，可能有延迟：主库最近写入的数据这里没有
attach-replica-fix = 请用 --database 指定主库；若该服务器已提升为主库，请清除其复制源（RESET REPLICA ALL）
attach-replica-read = 数据库是从库，可能有延迟：差异可能只是它尚未收到的订单。请用 --database 指定主库。
attach-replica-unknown = 无法判断数据库是否为可能有延迟的从库：其用户无权执行 SHOW REPLICA STATUS。请用 --database 指定主库。
attach-recover-acknowledged = 已确认：SQL 中已有其订单
attach-recover-ask = { $entries ->
    [0] 执行以上计划？
   *[other] 对 { $entries } 条消息执行以上计划，并按所示重建买家和库存？
}
attach-recover-busy = { $holder } 正在恢复该服务，已有 { $held } 秒；其锁若不续期，{ $left } 秒后到期，请等待（若进程已终止，到期后即可重试）
attach-recover-buyers = 既无订单也无消息的买家
attach-recover-buyers-added = 补入买家
attach-recover-buyers-removed = 移出买家
attach-recover-buyers-skipped = 未补录的买家：已无有效订单，或该场秒杀已重新加载；请重新生成计划
attach-recover-changed = 未处理：消费者已处理完或重新收到，或其秒杀正在迁移
attach-recover-closed = 只有已关闭订单的买家
attach-recover-columns = 无法写入订单：表 { $table } 的 { $columns } 不可为空且没有默认值；未作任何更改
attach-recover-counts = 处理 { $replays } 条，确认 { $written } 条，移入死信 { $dead } 条。
attach-recover-cut = 已被信号中断，请再次运行以处理其余部分。
attach-recover-dead = 已移入死信
attach-recover-done = 已执行：
attach-recover-doubled = 有多笔有效订单的用户
attach-recover-group = 消息流 { $stream } 的消费组 { $group } 不存在，将在消息 { $start } 之后创建。{ $again ->
    [0] {""}
   *[other] 其后 { $again } 条消息已有订单，服务的消费者会再次收到。
}
attach-recover-group-created = 已创建消费组
attach-recover-has-stream = --service-stopped 只用于没有消息流的配置档案；请去掉它
attach-recover-held = { $entries } 条在途消息并未卡住，不作处理。
attach-recover-later = 数据库接受其他订单，但未处理消息 { $entry }{ $entries ->
    [one] {""}
   *[other] {" "}等
}的订单：{ $why }。未放弃任何消息；请再次运行该命令
attach-recover-left = 尚未处理，请再次运行
attach-recover-letter = 死信 { $letter }
attach-recover-lock-lost = 恢复所持的锁已丢失，因此停止；请再次运行
attach-recover-locked = 未处理：用户的锁被占用，或在提交前丢失；请在释放后重新运行
attach-recover-log = 无法写入日志 { $path }（{ $why }），因此未再作更改；请修复，或另指定 --data-dir
attach-recover-lost = 消息流 { $key } 不存在：还没有订单，或订单在服务的内存队列中（--profile 002）；若是 Redis 丢失了它，请先执行 XGROUP CREATE { $key } { $group } 0 MKSTREAM
attach-recover-maybe-moved = Redis 中既没有秒杀 #{ $voucher } 的库存（{ $key }），也没有迁移标记（{ $key }:moved）。Redis 可能丢失了该标记，因此无法判断它是否已迁入引擎；为避免两侧同时售卖，不加载库存，也不写入订单。若引擎中有该场秒杀，则已迁移：用各引擎的 --redis 和 --database 运行 'seckill sale show { $voucher }'。若都没有，请加上 --not-moved。
attach-recover-memory = 没有配置消息流：服务内存队列中的订单无法查看，只有在服务停止之后，计划才有效。
attach-recover-most = 本次处理 { $planned } 条中的 { $max } 条（--max）；其余请再次运行。
attach-recover-moved = { $entries } 条在途消息属于已迁入引擎的秒杀，不作处理。
attach-recover-next = 执行：同一命令加上 --operate
attach-recover-no-buyers = 未比较所有秒杀的买家和订单：超过一次读取的上限，或键的内容不符。
attach-recover-no-stock = 未比较 Redis 库存：正在抢购，或在途消息超过一次读取的上限。
attach-recover-not-buyers = { $entries } 条在途消息的用户不在 Redis 的买家集合中：可能原服务已退还名额，也可能 Redis 丢失了买家。无法判断属于哪一种，因此不写入订单。若已退还：XACK { $stream } { $group } 消息ID（从未投递的用 XDEL { $stream } 消息ID）；否则将用户 SADD 到买家集合（{ $buyers }）。然后再次运行该命令。
attach-recover-not-counted = 未统计
attach-recover-not-promised = 保留：计划之后原服务已退还名额；请重新生成计划
attach-recover-nothing = 没有需要恢复的内容。
attach-recover-orders = 不在买家集合中的有效订单
attach-recover-oversold = 超卖的秒杀
attach-recover-passed = 消费组已越过
attach-recover-proof = 重新统计，剩余：
attach-recover-redis-stock = Redis 库存
attach-recover-rejects = 数据库不接受秒杀 #{ $voucher }{ $sales ->
    [one] {""}
   *[other] 及其他场次
} 的任何订单（{ $why }）；没有放弃任何消息，留待下次执行。请修正数据库后重新执行
attach-recover-replayed = 已写入订单
attach-recover-sale-stale = 计划已过时：秒杀 #{ $voucher } 此后有变化，未设置其库存，也未移除全部买家。请重新生成计划。
attach-recover-stock-differs = 库存不一致的秒杀
attach-recover-stocks = 已设置 Redis 库存
attach-recover-stuck = 卡住的消息
attach-recover-unique = 唯一索引拒绝写入，而该用户没有有效订单
attach-recover-unwritable = 消费组已越过的 { $entries } 条消息无法成为订单。请排除原因后再次执行，或用 --remove-buyers 放弃其库存：
attach-recover-waits = 仅当该秒杀 { $seconds } 秒内没有任何变动（--stuck）后，才会调高库存或移除买家。
attach-redelivered = { $count ->
        [1] 消息 { $entry }
       *[other] { $count } 条消息（最早的是 { $entry }）
    }已投递 { $deliveries } 次仍未确认。请在服务的日志中查找原因；只有确定无法成功时才确认它。
attach-sales = 已读取 { $count } 场秒杀，数值有效
attach-schema = 表结构与配置档案不符（{ $reason }）；请以相同选项运行 'seckill attach doctor'
attach-screen-alarms = { $count ->
    [0] 没有告警
   *[other] { $count } 条告警
}
attach-screen-consumers = { $count } 个消费者
attach-screen-cost = { $line }：{ $commands } 条 Redis 命令、{ $rows } 行
attach-screen-failed = { $why }；每 { $seconds } 秒重试一次
attach-screen-first-locks = 只读取前 { $held } 把
attach-screen-json = 屏幕没有 JSON 输出；请使用 seckill attach status --json
attach-screen-length = 长度
attach-screen-order = 告警始终按紧急程度排列
attach-screen-partly = 并未全部比较
attach-screen-pass = { $span }前读取，用时 { $took }
attach-screen-scan = 尚未检查所有键
attach-screen-second-pass = 第二次读取后显示告警
attach-set-name = 请改正配置档案中的 { $setting }，或用 --redis 指定服务所用的 Redis；如果还没有加载秒杀，请先加载
attach-set-name-later = 第一笔订单之后请再次检查；如果仍然没有，请改正配置档案中的 { $setting }
attach-sets = { $count } 场秒杀的集合
attach-sql-name = { $key } 只能由字母、数字和下划线组成
attach-status-cost = 开销
attach-status-database = 数据库
attach-status-foreign-stream = 未知：键的内容不符
attach-status-limits = 上限
attach-status-more-consumers = 显示 { $shown } / { $total } 个消费者，完整列表见 --json。
attach-status-more-locks = 显示 { $shown } / { $total } 把锁，完整列表见 --json。
attach-status-more-sales = 只读取最新的 { $shown } 场秒杀。
attach-status-no-sales = 没有秒杀。
attach-status-no-stream = 无：订单在服务的内存队列中，无法查看
attach-status-read = 数据取自 { $taken }，用时 { $took }，执行 { $commands } 条 Redis 命令，读取 { $rows } 行 SQL 数据
attach-status-reads = 每次最多读取 { $orders } 笔订单、{ $buyers } 位买家、未投递和待确认消息各 { $entries } 条，并检查 { $keys } 个键以查找锁
attach-status-redis = Redis
attach-status-stream = { $key }：长度 { $length }，积压 { $lag }，待确认 { $pending }，新增/秒 { $rate }
attach-stock-mismatch = 秒杀 #{ $voucher }：库存在 Redis 中为 { $redis_stock }，在 SQL 中为 { $sql_stock }，在途订单 { $in_flight } 笔，两者不符。请清点有效订单；如果 SQL 正确，'seckill attach recover' 会改正 Redis，并为没有订单的买家保留其份额。
attach-stock-without-sale = { $count ->
        [1] Redis 中的库存 { $key }
       *[other] Redis 中的 { $count } 个库存（例如 { $key }）
    }在 SQL 中没有对应的秒杀：用户买到的无法成为订单。请删除该键，或补上秒杀。
attach-stocks = { $pattern }：{ $count } 个数字
attach-stocks-moved = 没有键 { $pattern }：{ $count } 场秒杀已迁入引擎
attach-storage-engine = 表 { $table } 的存储引擎 { $engine } 不支持事务：回滚的订单会留在表中，同一件会卖两次
attach-storage-engine-fix = 请先转换：ALTER TABLE … ENGINE=InnoDB
attach-storage-engine-refused = { $found }；请先转换：ALTER TABLE { $table } ENGINE=InnoDB；未作任何更改
attach-stream = { $key }，{ $length } 条消息
attach-stream-gone = { $key } 不存在
attach-stream-missing = 消息流 { $stream } 不存在，但秒杀已售出：其中的订单已丢失或在别处等待。请检查配置档案中的 stream.key，以及该键是否被删除；若订单在服务的内存中等待，请使用 --profile 002。
attach-stream-unread = 买家未比较：消息流的键内容不符，无法读取消息。
attach-stuck = 消费者 { $consumer } 有 { $count } 条消息超过 { $seconds } 秒未确认。请检查它是否在运行，以及确认的消息流是否正确。
attach-table = { $table }，{ $columns } 列
attach-time-zone = time_zone 必须是时区名，例如 "Asia/Shanghai" 或 "CST-8"
attach-unknown-profile = 没有配置档案 '{ $name }'；可用 { $names }，或 TOML 文件，例如 ./{ $name }.toml
attach-wanted-numbers = 整数列表
attach-zone = SQL 中的日期按 { $zone } 读取，数据库不记录时区

## bench

bench-database-in-use = 数据库中有未归档的秒杀 #{ $sale }，请去掉或另指定 --database
bench-disturbed = { $what }；请在没有其他程序使用这些服务器时重新测试
bench-entry-malformed = 教程的消息流中有无效消息
bench-ids-repeated = 有订单号重复，或小于先前的订单号
bench-inserted-exist = 基准测试的一笔订单已在数据库中；请在没有其他程序使用这些服务器时重新运行
bench-inserted-sale = 基准测试：仅插入行
bench-inserted-wrong = { $orders } 行中插入了 { $written } 行
bench-lock-held = 其他进程持有某位买家的锁
bench-no-progress = 消费者已有 { $seconds } 秒没有写入，详见数据目录中的日志
bench-no-restart = Redis 被强制终止后未能及时重新启动；请在负载较低的机器上重新测试
bench-not-admitted = { $orders } 位买家中只有 { $admitted } 位准入（{ $why }）
bench-order-exists = 教程的消息流中有买家已持有订单
bench-other-bench = 此 Redis 上正在运行另一个基准测试，或上一次被强制终止；请等它结束，或删除键 { $keys }
bench-program = redis-benchmark 运行失败：{ $error }
bench-redis-in-use = 此 Redis 上有在线节点 { $node }，请去掉或另指定 --redis
bench-rush-sale = 基准测试：准入
bench-rush-wrong = 压测后计数不符：{ $admitted } 位买家中 Redis 有 { $found } 位，{ $persisted } 笔订单中 SQL 有 { $written } 笔
bench-sale-gone = 基准测试的秒杀已不存在
bench-script-cluster = 教程的脚本不能在集群上运行，请去掉或另指定 --redis
bench-script-keys = 此 Redis 中已有教程脚本的键（{ $keys }），由被强制终止的基准测试留下或属于其他程序；确认不用后删除，或者去掉、另指定 --redis
bench-script-replies = 教程脚本对 { $requests } 次请求的应答有误：准入 { $admitted }，售罄 { $sold_out }，重复 { $duplicate }
bench-script-wrong = 教程脚本运行后计数不符：应有买家 { $expected } 位，集合中 { $buyers } 位，消息流中 { $entries } 条，库存剩余 { $left } 件
bench-seckill-sale = 基准测试：引擎的消费者
bench-seckill-wrong = { $orders } 笔订单中引擎的消费者写入 { $written } 笔，另有 { $dead } 笔成为死信
bench-sold-out = 教程的秒杀已售罄
bench-stopped = 双方测完之前已停止
bench-stream-empty = 订单未写完，消息流已空
bench-tutorial-sale = 基准测试：教程的消费者
bench-tutorial-wrong = { $orders } 笔订单中教程的消费者写入 { $written } 笔，库存剩余 { $left } 件

## cli

cli-activity-none = 没有符合条件的日志。
cli-activity-older = 更早的日志：{ $command }
cli-activity-period = --since 必须早于 --until
cli-activity-why = 原因：{ $reason }
cli-alive = 在线
cli-audit-failed = 对账不符。
cli-audit-failed-because = 对账未完成：{ $error }。
cli-audit-incomplete = 对账不完整：已读取的场次没有差异；未知：{ $sales }。
cli-audit-incomplete-partitions = 对账不完整：已读取的场次没有差异；无法连接的分区上的场次未知。
cli-audit-loss = { $at }  { $node }，{ $subject }：{ $result }
cli-audit-passed = 对账通过：所有订单均已核对。
cli-audit-prevented = 分区修复之前无法对账
cli-audit-repair = 'seckill audit --repair' 列出可修复的问题，确认后执行
cli-audit-sale-incomplete = { $name }（不完整）
cli-audit-unknown-buyers = 数据丢失期间至多可能有 { $buyers } 位买家已准入但没有任何记录，对账无法发现。
cli-bench = 基准测试
cli-bench-answered = 按键响应，微秒
cli-bench-batches = seckill，每个事务至多 { $batch } 条
cli-bench-busy = 每轮因节点繁忙被拒绝的请求：{ $busy }
cli-bench-chart-admitted = 每秒准入
cli-bench-chart-goodput = 准入的买家
cli-bench-chart-growth = 订单表增长时的写入速度
cli-bench-chart-latency = 准入延迟
cli-bench-chart-microseconds = 微秒
cli-bench-chart-offered = 每秒发出的请求
cli-bench-chart-orders = 每秒订单
cli-bench-chart-p99 = 准入买家的延迟，p99
cli-bench-chart-rows = 表中行数
cli-bench-chart-seconds = 秒
cli-bench-chart-shard-cost = 分片秒杀的成本
cli-bench-chart-shard-cpu = 每百万次准入的 Redis 处理器秒数
cli-bench-chart-shard-rest = 从首个分片售空到全部售罄，{ $buyers } 位买家（推算）
cli-bench-chart-shards = 分片数
cli-bench-drawn = 画面绘制，微秒
cli-bench-engine-ended = 引擎在压测期间停止
cli-bench-frame = { $bytes }，窗口 { $size }
cli-bench-frame-name = 每帧字节
cli-bench-growth =
    每轮 { $orders } 笔订单，取 { $rounds } 轮的中位数，数据库：{ $database }
    与首次相比：除以最小表的速度；倍数：seckill 除以该行
cli-bench-hand-over = 锁交接（{ $waiting } 个等待者），p50 微秒
cli-bench-hand-over-p99 = 锁交接，p99 微秒
cli-bench-idle = 占单核 { $both }，无控制台时 { $engine }
cli-bench-idle-name = 空闲
cli-bench-ids =
    每轮 { $ids } 个订单号，取 { $rounds } 轮的中位数；没有重复的订单号
    倍数：seckill 除以该行
cli-bench-incr = 教程，{ $tasks } 个任务
cli-bench-inserted = 仅插入行
cli-bench-latency =
    延迟单位为微秒，取 { $rounds } 轮的中位数，数据库：{ $database }。
    容量：每秒准入并落库 { $capacity } 笔订单（{ $range }）。“-”表示未能及时应答。
    单个买家的等待时间为脚本的 { $p50 } 倍（p99：{ $p99 } 倍）。
cli-bench-latency-tutorial = 教程
cli-bench-leased = seckill，每批 { $batch } 个
cli-bench-load = 每秒 { $watched } 次请求，无控制台时 { $alone } 次
cli-bench-load-name = 压测
cli-bench-locks =
    取 { $rounds } 轮的中位数
    范围：可重入锁；倍数：可重入锁除以第一列
cli-bench-locks-per-second = 每秒加锁，{ $tasks } 个任务
cli-bench-lone = 逐个请求
cli-bench-no-answer = 有请求未得到应答，结果无效：{ $error }
cli-bench-overload =
    准入买家的延迟单位为微秒，取 { $rounds } 轮的中位数，数据库：{ $database }。
    容量：每秒 { $capacity }（{ $range }）。队列的延迟目标：{ $goal } 毫秒。“-”表示未能及时应答。
cli-bench-persisted = seckill，至全部落库
cli-bench-recovered = seckill，死亡节点的待确认消息
cli-bench-recovery =
    取 { $rounds } 轮的中位数，数据库：{ $database }
    倍数：seckill 处理待确认消息的速度除以该行
cli-bench-rounds =
    每轮 { $requests } 次请求，取 { $rounds } 轮的中位数，数据库：{ $database }
    倍数：seckill 除以该行
cli-bench-script = 教程，{ $connections } 个连接
cli-bench-shards =
    每轮 { $users } 位买家，取 { $rounds } 轮的中位数，所有分片在同一 Redis 上，数据库：{ $database }
    处理器秒/百万：每百万次准入占用的 Redis 处理器时间；多机倍数（推算）：每个分片独占一台单核服务器时的吞吐量除以单分片的吞吐量
cli-bench-shards-hash = 哈希
cli-bench-shards-moves =
    { $stock } 件库存分到 { $shards } 个分片，五分之四的买家属于同一分片，直到售罄
    分片调入或调出共 { $changes } 次，各分片净增 { $gained } 件，无负载时每次调拨 { $each } 毫秒
    准入买家的等待时间：p99 { $p99 } 毫秒，最长 { $most } 毫秒
cli-bench-shards-simulated =
    按实测的单分片能力和调拨耗时推算；每一百位买家一件库存
    调拨次数：每次供给所有有买家等待的售空分片，每个调出分片各计一次调拨耗时
    不均衡度：首个分片售空时，售出最多与最少的分片之比；调拨占比：从首个分片售空到全部售罄期间正在调拨的时间占比，100 % 表示瓶颈是提交调拨的数据库
cli-bench-shards-zipf = 齐普夫
cli-bench-sides =
    取 { $rounds } 轮的中位数，数据库：{ $database }
    倍数：seckill 除以该行
cli-bench-slowed = { $slowed }，为 { $rounds } 轮的中位数，半数在 { $low } 到 { $high } 之间
cli-bench-slowed-name = 减速
cli-bench-start =
    已有 { $orders } 笔订单时，新节点首次准入耗时（毫秒）：
    有在线节点时 { $live }，Redis 重启后 { $restarted }。
cli-bench-tutorial = 教程的做法，逐条写入
cli-bench-undelivered = seckill，未投递消息
cli-cancelled = 已取消，未做任何更改
cli-changed = { $entry }：原为 { $was }，现为 { $is }
cli-claim = 将 { $entries } 条待确认消息转移给“{ $to }”？
cli-claim-part = 分区 { $partition }：{ $entries } 条消息，从 { $from } 转移给 { $to }
cli-confirmation-needed = { $question }没有可供确认的终端，请加 --yes。
cli-console-json = 控制台不支持 JSON 输出；请用 'seckill status --json'
cli-database-unavailable = 数据库不可用（{ $reason }）
cli-dead = 失联
cli-dead-burial = { $at }  投递 { $deliveries } 次，来自 { $from }：{ $reason }
cli-dead-compensate = 永久删除 { $letters } 条死信，取消 { $buyers } 位等待中买家的订单并退还库存？
cli-dead-discard = 永久删除 { $letters } 条死信？买家仍在等待的死信会保留；--compensate 可退还其库存。
cli-dead-fields = 字段
cli-dead-letter = 死信 { $letter }
cli-dead-letter-of = 死信 { $letter }，原消息 { $entry }
cli-dead-missing = 死信 { $letter } 不存在，请用 'seckill dead list' 查看
cli-dead-more = 共 { $total } 条，显示 { $shown } 条；下一页：--from { $next }
cli-dead-next = 下一步：'seckill dead replay' 或 'seckill dead discard'。
cli-dead-no-consumer = 无消费者
cli-dead-no-match = 没有符合条件的死信，请用 'seckill dead list' 查看
cli-dead-no-order = 无法生成订单：{ $fault }
cli-dead-none = 没有死信。
cli-dead-none-of = 共 { $total } 条死信，均不符合条件。
cli-dead-none-of-these = 指定的死信均不存在，请用 'seckill dead list' 查看
cli-dead-not-found = 条不存在
cli-dead-nothing-to-do = 这些死信均不能这样处理，请看上面的判定
cli-dead-replay = 将 { $letters } 条死信重放到消息流？其余保留。
cli-dead-replays = 重放 { $replays } 次后仍为死信
cli-dead-row = SQL 中：订单 { $id }，买家 { $user_id }，秒杀 #{ $voucher_id }，{ $status ->
    [unpaid] 未支付
    [paid] 已支付
    [used] 已使用
    [cancelled] 已取消
    [closed] 已关闭
   *[other] { $status }
}
cli-doctor-acl = 对地址中的用户执行 ACL SETUSER：{ $rules }
cli-doctor-aof = 已开启，appendfsync { $fsync }
cli-doctor-aof-on = 已开启；落盘时机未知：当前用户无权读取 CONFIG
cli-doctor-both-killed = 两者同时被 SIGKILL
cli-doctor-check = { $name ->
    [server] 服务器程序
    [data-directory] 数据目录
    [permissions] 权限
    [disk] 磁盘
    [redis] Redis
    [append-only-file] AOF
    [eviction] 淘汰策略
    [redis-writes] Redis 写入
    [commands] 命令
    [partitions] 分区
    [database] 数据库
    [writes] 写入
    [schema] 表结构
    [durability] 持久化
    [replicas] 从节点
    [opening] 初始化
    [terminal] 终端
    [locale] 区域设置
    [stock] 库存
    [buyers] 买家
    [stream] 消息流
    [group] 消费组
    [entries] 消息
    [locks] 锁
    [order-IDs] 订单号
    [tables] 表
    [rows] 数据行
    [storage-engine] 存储引擎
    [time-zone] 时区
    [initial-stock] 初始库存
   *[other] { $name }
}
cli-doctor-chmod = 对每个路径执行 chmod go=
cli-doctor-clock = { $state ->
    [same] 与 { $server } 相差不到 { $by }
    [ahead] { $server } 比本机快 { $by }
   *[behind] { $server } 比本机慢 { $by }
}
cli-doctor-clock-set = 请同步两台主机的时钟（NTP）：秒杀按 Redis 的时钟开始和结束，订单也按它记录时间
cli-doctor-commands = 所需命令均可执行
cli-doctor-commands-unknown = 该服务器没有这些命令：请从其配置中删去 rename-command，或改用 7.0 以上的 Redis 或 Valkey
cli-doctor-data-loss = 按当前配置，各类故障可能丢失的数据：
cli-doctor-database = { $version }，{ $place }
cli-doctor-database-killed = 数据库被 SIGKILL
cli-doctor-database-power = 数据库断电
cli-doctor-disk = { $path } 所在磁盘剩余 { $mib } MiB；大型秒杀可能需要 { $needed }
cli-doctor-durability = assets/durability.md 说明各项含义，以及影响它们的设置。
cli-doctor-failover = Redis 故障转移
cli-doctor-files = 本进程最多可打开 { $limit } 个文件：服务器只能有 { $connections } 个客户端连接，而 http.connections 为 { $wanted }
cli-doctor-files-raise = 提高硬限制：systemd 单元的 LimitNOFILE=、容器的 --ulimit nofile= 或 limits.conf；或调低 http.connections
cli-doctor-fix = 处理：{ $fix }
cli-doctor-free-database-space = 清理磁盘空间，或用 --database 指定另一文件
cli-doctor-free-space = 清理磁盘空间，或另指定 --data-dir
cli-doctor-grade = { $grade ->
    [ok] 正常
    [note] 提示
    [problem] 问题
    [unreachable] 不可达
   *[other] { $grade }
}
cli-doctor-grant-writes = 请授予地址中的用户使用说明所列的权限，或改用可写的服务器地址
cli-doctor-locale = { $locale } 不是 UTF-8
cli-doctor-mode = { $path }（权限 { $mode }）
cli-doctor-more-replicas = 增加从节点或调低 engine.wait_replicas：目前买家收不到应答
cli-doctor-no-aof = 未开启：Redis 重启会丢失已准入的订单
cli-doctor-no-config = 未知：当前用户无权读取 CONFIG 和 INFO
cli-doctor-no-eviction = 执行 CONFIG SET maxmemory-policy noeviction：键被淘汰即丢失买家
cli-doctor-no-terminal = 控制台须在终端中运行；'seckill status' 和 'seckill demo --headless' 不需要终端
cli-doctor-node-killed = 节点被 SIGKILL
cli-doctor-open-to-others = 其他用户可访问：{ $paths }
cli-doctor-partitions = { $partitions } 个，均可用
cli-doctor-passed = 检查全部通过。
cli-doctor-problems = 发现问题。
cli-doctor-redis = { $product }，位于 { $place }
cli-doctor-redis-killed = Redis 被 SIGKILL
cli-doctor-redis-power = Redis 断电
cli-doctor-refused = 被拒绝：{ $names }（{ $why }）
cli-doctor-repair = 请执行 'seckill audit --repair'，或启动一个节点，由它在几秒内自动修复
cli-doctor-replicas = 已连接 { $replicas } 个，须有 { $wait } 个确认
cli-doctor-restore = 恢复备份，或另指定 --database
cli-doctor-schema = 已是最新，各表均可读
cli-doctor-server = { $version }，位于 { $path }
cli-doctor-server-in-tool = { $server } { $version }，包含在 { $path } 中
cli-doctor-set-locale = 执行 export LC_ALL=C.UTF-8，否则控制台只用 ASCII 绘制
cli-doctor-skipped = 因 --read-only 跳过
cli-doctor-small-window = 完整的控制台需要 80x24，请放大窗口
cli-doctor-sync-aof = 执行 CONFIG SET appendfsync everysec
cli-doctor-turn-on-aof = 执行 CONFIG SET appendonly yes，并写入 redis.conf
cli-doctor-untested = 此版本未经测试；请改用测试过的版本（{ $versions }），或先在此版本上演练一场秒杀
cli-doctor-zone = 各节点的 cron 表达式均按 { $zone } 触发；本机时区为 { $host }
cli-doctor-zone-set = 如需更改，请在配置文件中设置 engine.jobs.time_zone 并重启一个节点
cli-done-but-not-logged = 'seckill { $command }' 已执行（{ $result }），但写入审计日志失败；请手工记录
cli-duplicate = 重复
cli-empty-filter = 空的筛选条件匹配全部，请去掉它，或改用 --all
cli-expected-address = 应为数字地址加端口，例如 127.0.0.1:8080
cli-expected-count = 应为非负整数
cli-expected-difference = 应为整数，负数表示减少库存
cli-expected-range = 应在 { $from } 到 { $to } 之间
cli-failed-and-not-logged = 'seckill { $command }' { $result }；写入审计日志也失败了
cli-file-exists = { $path } 已存在，请换个路径或先删除
cli-file-exists-without-yes = { $path } 已存在，加 --yes 覆盖，或换个路径
cli-file-no-file = 无法写入 { $path }：它不是文件、终端或管道，请换个路径
cli-file-not-written = 无法写入 { $path }（{ $error }），请换个路径
cli-incident = 故障报告，{ $since } 到 { $until }
cli-incident-alarm = 告警
cli-incident-audit = 对账
cli-incident-audit-failed = 对账不符，见下文对账结果
cli-incident-audit-passed = 对账通过，见下文对账结果
cli-incident-audit-timeout = 对账未能在五分钟内完成；请运行 seckill audit
cli-incident-away = { $server ->
    [redis] Redis 不可达
    [database] 数据库不可达
   *[other] { $server } 不可达
}
cli-incident-body-gone = 内容丢失
cli-incident-by-id-failed = { $at } 按订单号对账：**不符**。
cli-incident-by-id-passed = { $at } 按订单号对账：通过。
cli-incident-by-id-title = 对账结果
cli-incident-chart = SQL 中每 { $seconds } 秒的订单数，分别按准入时间和写入时间统计；尚未写入 SQL 的订单不计。
cli-incident-created = 生成时间
cli-incident-database = 数据库
cli-incident-dead = 死信
cli-incident-dead-title = 死信
cli-incident-entries = { $entries } 条消息。
cli-incident-entries-cut = 共 { $total } 条消息，只统计最早的 { $entries } 条。
cli-incident-figures-title = 指标
cli-incident-first = 前 { $entries } 条：
cli-incident-from = 起
cli-incident-letters = { $letters } 条死信。
cli-incident-letters-cut = 只统计了 { $letters } 条死信，还有更多。
cli-incident-locks-title = 锁
cli-incident-locks-unknown = 未知：其所在的 Redis 服务器无法连接。
cli-incident-log-cut = 该时段更早的日志见 'seckill activity'。
cli-incident-missing = 以下内容缺失：
cli-incident-no-consumers = 消费组没有消费者。
cli-incident-no-group = 消费组不存在。
cli-incident-no-locks = 没有已知被持有的锁。
cli-incident-no-log = 该时段没有日志。
cli-incident-no-nodes = 没有节点。
cli-incident-no-runs = 还没有任务运行记录。
cli-incident-no-sales = 没有秒杀。
cli-incident-no-verdicts = 数据库不可达，无法判定。
cli-incident-nodes-title = 节点
cli-incident-not-opened = 无法打开：{ $why }
cli-incident-older = 更久
cli-incident-oldest-pending = 最早的待确认消息写入于 { $age }前。
cli-incident-orders-title = 订单走势
cli-incident-partly = 仅限有应答的分区。
cli-incident-partitions = 分区
cli-incident-pending-title = 待确认消息与恢复计划
cli-incident-period = --since 必须早于 --until，且为过去的时间
cli-incident-reasons = 另有 { $more } 种原因。
cli-incident-redis = Redis
cli-incident-runs-title = 定时任务运行记录，最新在前
cli-incident-sales-title = 秒杀
cli-incident-stream = 保留 { $length } 条消息，积压 { $lag }，待确认 { $pending }，死信 { $dead }。
cli-incident-stream-title = 消息流与消费组
cli-incident-stream-unknown = 未知。
cli-incident-timeline-title = 时间线
cli-incident-to = 止
cli-incident-unknown = 未知：{ $why }
cli-incident-version = 版本
cli-incident-written-failed = 已写入 { $file }；对账不符。
cli-incident-written-passed = 已写入 { $file }；对账通过。
cli-incident-written-unknown = 已写入 { $file }；对账结果未知。
cli-incident-younger = 不足 { $age }
cli-jobs-no-run = 还没有运行记录。
cli-keys-hint = 在配置文件的 [keys] 中修改按键：mark = "v"
cli-listen-missing = TLS 选项、--demo-login 和 --admin-listen 需要与 --listen ADDR 一起使用
cli-listen-read-only = 只读模式下不能向买家提供服务；请去掉 --listen 或 --read-only
cli-listen-with-command = 命令之前的 --listen 和 TLS 选项属于控制台；'seckill serve' 的选项请写在命令之后
cli-lock-other-holder = “{ $name }”的持有者不是 { $wanted } 而是 { $holder }，未做任何更改
cli-lock-release = { $question }其任务会被取消，之后的写入会被拒绝。
cli-lock-release-alive = 强制释放 { $node }（{ $task }）持有的“{ $name }”？该节点在线。
cli-lock-release-dead = 强制释放 { $node }（{ $task }）持有的“{ $name }”？该节点没有心跳。
cli-lock-release-unknown = 强制释放 { $node }（{ $task }）持有的“{ $name }”？该节点未知。
cli-locks-more = 共 { $total } 把，显示 { $shown } 把；可用 --limit 查看更多。
cli-locks-no-end = 不过期
cli-locks-no-node = { $node }（未知节点）
cli-locks-none = 没有被持有的锁。
cli-locks-orphan = { $node }（失联）
cli-log-filter-invalid = SECKILL_LOG 不是有效的日志过滤规则：“{ $filter }”（{ $why }）。请填一个级别或目标列表，例如 { $example }
cli-locks-unknown = 持有者未知。
cli-ms = { $millis } 毫秒
cli-next-bought = 未支付。支付：seckill orders pay { $order }
cli-next-changed = 制定计划后有变化的消息已跳过，请重新制定计划。
cli-next-lost = Redis 中缺少部分秒杀，内容丢失的消息已跳过；请用 'seckill audit --repair' 载入这些秒杀，再重新制定计划。
cli-next-not-found = 可用 'seckill orders show { $order }' 查看去向。
cli-next-page = 下一页：{ $command }
cli-next-rewound = 进度见 'seckill stream show'，结果见 'seckill audit'。
cli-next-sale-created = 压测：seckill rush --voucher { $voucher } --users 1000
cli-next-waiting = 买家仍在等待的死信已保留：请重放，或用 --compensate 丢弃。
cli-next-without-body = 内容丢失的消息，其订单可用 'seckill pending apply' 重建。
cli-no-answer = { $seconds } 秒内无应答
cli-order = 订单 { $id }
cli-orders-dead = 死信（{ $reason }），{ $of }
cli-orders-lost = 已丢失：{ $of }；仅 Redis 中有记录，其他地方均无
cli-orders-none = 没有符合条件的订单。在途订单尚未写入 SQL，可用 'seckill orders show ID' 查看。
cli-orders-of-place = 买家 { $user }，秒杀 #{ $voucher }，该买家的第 { $place } 个名额
cli-orders-of-sale = 买家 { $user }，秒杀 #{ $voucher }
cli-orders-of-voucher = 买家 { $user }，普通优惠券 #{ $voucher }
cli-orders-pending = 待确认（{ $entry }），{ $of }；持有者见 'seckill pending list'
cli-orders-persisted = { $status }，{ $of }，写入时间 { $written }
cli-orders-undelivered = 在消息流中尚未投递（{ $entry }），{ $of }
cli-output-not-written = 无法写出结果（{ $error }）；命令已做的更改仍然有效
cli-paid = 已支付
cli-partition = 分区 { $n }
cli-partition-finding = 分区 { $n }：{ $finding }
cli-partitions-differ = 分区数为 { $agreed }；没有节点在线时可用 'seckill work --partitions { $wanted }' 更改，或去掉 --partitions
cli-paused = 已暂停
cli-pending-all-held = 所有消息均由在线节点持有，无需处理。
cli-pending-apply = 对至多 { $entries } 条消息执行以上计划？
cli-pending-more = 共 { $total } 条，显示 { $shown } 条；下一页：--from { $next }
cli-pending-next = 'seckill pending plan' 列出每条消息的处理办法。
cli-pending-no-match = 没有符合筛选条件的待确认消息。
cli-pending-none = 没有待确认消息。
cli-pending-none-of = { $total } 条待确认消息均不符合条件。
cli-plan-apply = 执行：seckill pending apply；--out FILE 保存计划。
cli-plan-apply-file = 执行：seckill pending apply { $path }
cli-plan-more = ……另有 { $more } 条。
cli-plan-nothing = 没有符合条件的待确认消息，无需计划。
cli-plan-orders = SQL 订单
cli-plan-progress = { $action }：{ $done } / { $of }
cli-plan-read-failed = 读取计划失败，详见数据目录中的日志
cli-plan-rebuilt = { $orders } 笔已准入的订单别处均无记录，将重新入队。
cli-plan-stock = #{ $voucher } SQL 库存
cli-plan-unreadable = 无法读取计划 { $path }（{ $error }）；可用 'seckill pending plan --out FILE' 生成
cli-plan-waits = （已等待 { $seconds } 秒：若某个进程在事务中被挂起，数据库会在结束其会话后释放所占的行）
cli-read-only-works = { $why }；仍可用 'seckill --read-only' 打开控制台
cli-reason-prompt = 写入审计日志的原因（可不填）：
cli-remove-consumer = 从 { $groups } 个消费组中移除没有消息的“{ $name }”？
cli-repair-oversold = 需要人工处理，请核对 tb_voucher_order 与 tb_seckill_voucher：{ $finding }；若订单无误，用 'seckill sale restock { $voucher } { $missing }' 补足库存，再重新修复
cli-repair-manual = 需要人工处理，请核对 tb_voucher_order 与 tb_seckill_voucher：{ $finding }
cli-repair-partitions = 修复 { $partitions } 个分区？
cli-repair-sales = 对 { $sales } 场秒杀执行以上修复？
cli-repair-stranded = 需要人工处理：{ $finding }；'seckill dead list' 查看原因，'seckill dead replay --all' 重放，'seckill dead discard --all --compensate' 取消订单并退还库存
cli-repair-the-partition = 修复该分区
cli-repaired = 已修复：补回买家 { $put_back } 位，重新入队订单 { $enqueued } 笔，退还库存 { $given_back } 件。
cli-repaired-partitions = 已修复分区故障 { $faults } 处，详见 'seckill activity'。
cli-repaired-stocks = 已按有效订单重算 { $sales } 场的 SQL 库存。
cli-replayed = 已恢复
cli-requests = 请求
cli-runtime = 无法启动运行时（{ $error }），请检查当前用户的资源限制
cli-rush-abandoned = 压测停止前未收到应答
cli-rush-certificate = { $server } 的证书未被接受（{ $why }）；请使用证书所含的主机名，并用 --tls-ca FILE 指定签发它的 CA 证书（带 CA:FALSE 的自签名证书则指定其本身）
cli-rush-cut-short = 请求未发完即已停止
cli-rush-dead = { $buyers } 位已准入买家的订单成为死信；原因见 'seckill dead list'。
cli-rush-first-error = 首个错误：{ $error }
cli-rush-first-rejection = 首次拒绝：{ $reason }
cli-rush-not-a-url = 格式为 http:// 或 https:// 加主机和端口，例如 http://127.0.0.1:8080
cli-rush-not-seckill = { $server } 不是 seckill 服务器，其应答（{ $status }）不符合接口；请指定 'seckill serve' 的地址
cli-rush-redirected = { $server } 重定向到 { $to }；请用 --http 指定 'seckill serve' 的地址
cli-rush-refused = { $server } 没有该优惠券或未就绪（{ $status }：{ $why }），未发送请求
cli-rush-requests = 共 { $requests } 次请求，每秒 { $rate } 次，耗时单位为毫秒：
cli-rush-server-away = 无法连接 { $server }（{ $why }）；请用 'seckill serve' 启动，或检查 --http 的协议、主机和端口
cli-rush-settled = 最后一次应答后 { $seconds } 秒全部落库
cli-rush-silent = { $server } 在 { $seconds } 秒内没有应答；请检查其负载，或降低请求速率
cli-rush-tls-ca = 无法使用 --tls-ca { $path }（{ $reason }）；请提供 PEM 文件，内含 CA 证书，或带 CA:FALSE 的自签名服务器证书
cli-rush-tls-ca-unused = --tls-ca 只用于 https:// 服务器；请用 --http 指定，或去掉 --tls-ca
cli-rush-unsettled = 部分已准入的订单未确认处理完，可用 'seckill pending list' 和 'seckill audit' 查看。
cli-sale-at-once = 立即
cli-sale-behind = SQL 中的 { $sales } 比 Redis 旧（可能从备份恢复过），所列阶段、时间与初始库存取自 Redis。更新 SQL：'seckill audit --repair'
cli-sale-end = 结束秒杀 #{ $voucher }“{ $title }”？共 { $initial } 件，未售 { $left } 件；结束后不能重新开始。
cli-sale-ends = 结束
cli-sale-limit = 每人 { $limit } 单
cli-sale-limit-name = 限购
cli-sale-lost = SQL 丢失了 { $sales }，而 Redis 中仍有：不再放行任何请求。从 Redis 恢复：'seckill audit --repair'
cli-sale-no-end = 不限
cli-sale-none = 还没有秒杀。新建：seckill sale create --title '火锅五折券' --stock 100
cli-sale-none-archived = 没有已归档的秒杀。
cli-sale-none-archived-before = 没有更早的已归档秒杀。
cli-sale-not-in-redis = 已从 Redis 移除
cli-sale-not-loaded = 未载入
cli-sale-opens = 开始
cli-sale-partly-loaded = { $stock }（{ $lacking } 个分片未载入）
cli-sale-state = { $state ->
    [running] 正常
    [paused] 已暂停
    [ended] 已结束
    [archived] 已归档
   *[other] { $state }
}，变更于 { $at }
cli-sale-state-name = 运营状态
cli-sale-stock = { $stock }，共 { $initial }（SQL { $db_stock }）
cli-sale-stock-in-sql = { $left }，SQL 中剩 { $db_stock }，共 { $initial }
cli-sale-unsold = 未售 { $db_stock }，共 { $initial }
cli-sale-window = { $begin ->
        [none] 即刻开售
       *[other] { $begin } 开售（{ $ahead }后）
    }，{ $end ->
        [none] 不设结束时间
       *[other] { $end } 结束
    }。
cli-serve-admin = 指标、健康检查和运维人员接口在 { $address }。
cli-serve-demo-login = 已开启验证码登录（仅供演示）：验证码不会发送，而是写入 { $path }。能读取此文件的人可以以任何用户的身份登录。
cli-serve-files = 客户端连接最多 { $connections } 个，少于设置的 { $wanted } 个：本进程最多可打开 { $limit } 个文件。请提高硬限制（systemd 单元的 LimitNOFILE=）。
cli-serve-insecure = 其他主机可以访问 { $address }，密码和令牌会以明文传输；请监听回环地址，若有代理或网络隔离保护，可加 --insecure
cli-serve-no-admin = 指标、健康检查和运维人员接口对此地址的所有客户端开放。可用 --admin-listen 为其单独指定地址。
cli-serve-started = { $node } 已在 { $address } 提供服务，Redis：{ $redis }，数据库：{ $database }。按 Ctrl-C 或发送 SIGTERM 停止。
cli-signals = 无法安装信号处理器（{ $error }）
cli-sold-out = 售罄
cli-status-answers = 应答耗时 { $ms } 毫秒
cli-status-audit-failed = 不符：{ $finding }
cli-status-audit-more = ；另有 { $more } 条，请执行 'seckill audit'
cli-status-audit-passed = 通过
cli-status-audit-unknown = 未知：{ $error }
cli-status-away = 不可达：{ $error }
cli-status-consumer = { $name } { $life }，待确认 { $pending }
cli-status-in-flight = { $orders } 笔订单在途
cli-status-more-sales = 另有 { $more } 场，用 'seckill sale list' 查看全部
cli-status-no-database = 数据库不可达：秒杀、订单、任务和日志均未知
cli-status-no-sales = 还没有秒杀。
cli-status-no-writes = 拒绝写入：{ $why }
cli-status-partly = 部分不可达
cli-status-stream = 积压 { $lag }，待确认 { $pending }，死信 { $dead }
cli-status-stream-kept = 保留 { $length } 条消息，最早为 { $oldest }前
cli-status-stream-name = 消息流
cli-status-stream-partly = { $line }（仅限有应答的分区）
cli-status-stream-pending = 积压 { $lag }，待确认 { $pending }（最早 { $oldest }前），死信 { $dead }
cli-stream = 分区 { $partition }  共写入 { $added } 条，保留 { $length } 条，死信 { $dead } 条
cli-stream-again = 条重新投递，{ $from } 到 { $to }（{ $from_time } 到 { $to_time }）
cli-stream-dry-run = 未做任何更改：这是试运行。
cli-stream-group = 消费组 { $name }：已投递到 { $delivered }，已读 { $read }，积压 { $lag }，待确认 { $pending }
cli-stream-group-lost = 没有消费组：运行中的节点或 'seckill stream rewind --to start' 会从头重建
cli-stream-group-oldest = ，最早的 { $entry } 写入于 { $age }前
cli-stream-malformed = 条为无效消息：转为死信
cli-stream-missing = 条不在 SQL 中：有库存则写入，否则转为死信
cli-stream-no-group = 还没有消费组
cli-stream-pending = 条目前待确认：由其消费者或本命令处理
cli-stream-preview = 分区 { $partition }：消费组已投递到 { $delivered }
cli-stream-preview-no-group = 分区 { $partition }：没有消费组，将创建
cli-stream-range = 从 { $first }（{ $age }前）到 { $last }
cli-stream-rewind = 重新投递 { $again } 条消息？其中 { $written } 条已在 SQL 中，只需确认；{ $missing } 条将写入 SQL。
cli-stream-rewind-skipped = 有 { $skipped } 条更早的消息既不在待确认列表也不在 SQL 中，将被跳过。
cli-stream-rewind-unheld = SQL 中缺失的订单中有 { $unheld } 条已无买家持有，将成为死信。
cli-stream-skipped = 条更早的消息仍在，但不投递
cli-stream-skipped-missing = 条不在 SQL 中：将跳过，'--to start' 可投递它们
cli-stream-trimmed = 条更早的消息已被裁剪或删除，无法恢复
cli-stream-undelivered = 条在其后，尚未投递
cli-stream-unheld = 条不在 SQL 中且已无买家持有：将成为死信
cli-stream-written = 条已在 SQL 中：直接确认
cli-stuck = 卡住
cli-token-file-empty = { $path } 中没有令牌；可用 'seckill users create' 生成
cli-token-file-line = { $path } 第 { $line } 行不是令牌；每行只能有一个令牌
cli-token-file-not-read = 无法读取 { $path }（{ $error }）；令牌文件由 'seckill users create' 生成
cli-token-file-too-short = { $users } 位买家需要同样多的令牌，文件只有 { $found } 个；请减小 --users 或多建用户
cli-tokens-created = 令牌 #{ $id }：{ $token }
cli-tokens-none = 没有令牌
cli-tokens-revoked = 令牌 #{ $id } 已吊销
cli-tokens-unknown = 没有有效的令牌 #{ $id }
cli-unexpected-reply = 引擎返回了意外的结果，详见数据目录中的日志
cli-users-created = 已创建 { $count } 个用户并登录，令牌已写入 { $path }
cli-verdict = { $verdict ->
    [awaited] 买家等待
    [body_gone] 内容丢失
    [came_back] 重放失败
    [holds_another] 另有订单
    [id_taken] 订单号被占
    [in_hand] 处理中
    [malformed] 无订单
    [no_sale] 秒杀不存在
    [sale_lost] 秒杀丢失
    [not_awaited] 无买家
    [not_loaded] 未载入
    [not_promised] 无买家
    [refused] 冲突
    [stuck] 卡住
    [too_often] 投递过多
    [written] 已落库
   *[other] { $verdict }
}
cli-verdict-action = { $action ->
    [acknowledge] 确认
    [dead_letter] 转为死信
    [decide] 人工决定
    [discard] 丢弃
    [leave] 保留
    [process] 接管并落库
    [rebuild] 按买家名单重建
    [replay] 重放
   *[other] { $action }
}
cli-voucher-kind = { $kind ->
    [ordinary] 普通
    [sale] 秒杀
   *[other] { $kind }
}
cli-voucher-no-more = 没有更多优惠券。
cli-voucher-none = 还没有优惠券。新建：seckill voucher create --title '代金券'
cli-voucher-status = { $status ->
    [on] 上架
    [off] 下架
    [expired] 过期
   *[other] { $status }
}
cli-work-handed-over = { $node } 已停止，{ $entries } 条未处理完的消息已移交其他节点。
cli-work-read-only = 节点会更改数据；运行 'seckill work' 时请去掉 --read-only
cli-work-started = { $node } 已启动，Redis：{ $redis }，数据库：{ $database }。按 Ctrl-C 或发送 SIGTERM 停止。
cli-work-stopped = { $node } 已停止，最后一批已处理完。
cli-work-unfinished = { $node } 已停止，有一批未处理完，保留为待确认消息，下次启动时继续。

## column

column-about = 故障
column-action = 操作
column-admitted = 准入
column-admitted-per-second = 每秒准入
column-afterwards = 之后
column-age = 已等待
column-at = 时间
column-audit = 对账
column-busy-percent = 繁忙 %
column-buyer = 买家
column-buyers = 买家
column-bytes-per-row = 每行字节
column-cause = 触发
column-changed = 变更
column-closed = 已关闭
column-consumer = 消费者
column-cpu-per-million = 处理器秒/百万
column-created = 创建时间
column-dead = 死信
column-deliveries = 投递
column-depth = 层数
column-detail = 说明
column-does = 作用
column-drill = 演练
column-due = 计划时间
column-entries = 消息数
column-entry = 消息
column-fault = 问题
column-first-dry = 首个售空（秒）
column-held = 已持有
column-holder = 持有者
column-idle = 空闲
column-imbalance = 不均衡度
column-initial = 总库存
column-job = 定时任务
column-keys = 按键
column-kind = 类型
column-last = 上次
column-last-heartbeat = 最近心跳
column-lease-left = 剩余租期
column-letter = 死信
column-letters = 死信数
column-lock = 锁
column-max = 最大
column-moves = 调拨
column-moving = 调拨占比
column-multilock = 联锁，{ $servers } 台服务器
column-next = 下次
column-node = 节点
column-of-capacity = 有效吞吐/容量
column-of-first = 与首次相比
column-on = 对象
column-on-servers = 多机倍数
column-order = 订单
column-orders = 订单数
column-outcome = 结果
column-p99-range = p99 范围
column-pays = 售价
column-pending = 待确认
column-per-second = 每秒
column-persisted = 已落库
column-phase = 状态
column-range = 范围
column-ratio = 倍数
column-reason = 原因
column-reentrant = 可重入锁
column-replays = 重放
column-result = 结果
column-revoked = 吊销时间
column-role = 角色
column-round-trips = 往返次数
column-rows = 行数
column-sale = 秒杀
column-samples = 样本数
column-schedule = 调度
column-seconds = 秒数
column-shards = 分片
column-shop = 商铺
column-since = 状态更新于
column-sql-stock = SQL 库存
column-status = 状态
column-stock = 库存
column-task = 任务
column-title = 标题
column-token = 栅栏令牌
column-token-name = 名称
column-took = 耗时
column-tries = 投递
column-undelivered = 未投递
column-until-sold-out = 至售罄（秒）
column-user = 用户
column-verdict = 判定
column-voucher = 优惠券
column-waiting = 等待
column-what = 事件
column-when-planned = 计划时
column-who = 操作员
column-why = 原因
column-worth = 面值

## command

command-all-not-only-filtered-ones = 全部 { $count } 条，不只是筛选出的 { $shown } 条。
command-all-that-are-pending = { $count } 条消息：全部待确认消息。
command-at-most-concurrent-requests = 最大并发 { $most }，{ $pace }。
command-buyers-are-sending-requests = { $users } 位模拟买家开始请求 #{ $voucher }
command-cancel = 取消
command-consumer-no-longer-exists = 该消费者已不存在
command-counting-dead-letters-was-cancelled = 已取消统计死信，未做任何更改
command-does-not-apply =
    { $phase ->
        [planned] #{ $id } 尚未开始
        [running] #{ $id } 已在进行中
        [paused] #{ $id } 已暂停，按 { KEY("pause") } 恢复
        [sold_out] #{ $id } 已开始并已售罄
       *[other] #{ $id } 已结束，无法更改
    }
command-does-nothing-here = { $key } 在此无效{ $has_help ->
        [true] ，按 { KEY("help") } 查看按键
       *[false] {""}
    }
command-edge = { $top ->
    [true] 已是第一行
   *[false] 已是最后一行
}
command-engine-has-stopped-display = 引擎已停止，画面不再更新
command-engine-stopped-before-it-replied = 引擎未应答就已停止，请先在日志（{ KEY("activity") }）中核对结果再重试
command-entries-marked-ones = { $count } 条消息：已标记的消息。
command-held = “{ $name }”，由 { $node }{ $has_task ->
        [true] （{ $task }）
       *[false] {" "}
    }持有。
command-held-by-live-nodes-nothing = { $held } 条由在线节点处理中，无需操作
command-holder-no-longer-holds-lock = 该持有者已不再持有这把锁
command-is-available = { $key } 可用于{ $each }
command-is-being-created-wait = 正在新建 { $title }，请等引擎应答后再新建
command-job-no-longer-exists = 该任务已不存在
command-no-command-is-running = 没有正在执行的操作
command-no-other-time-range = 没有其他时间范围
command-no-row-is-selected = 未选中任何行
command-nothing-was-changed = 未做任何更改
command-nothing-was-changed-form-keeps = 未做任何更改，已填内容保留在表单中
command-of = { $left } / { $initial } 件
command-optional-for-log-to-edit = 可选，记入日志；按 { KEY("next-part") } 填写
command-order-is-no-longer = 该订单已不在最新一页
command-plan-is-ready = 计划已就绪
command-requests-by-buyers = { $buyers } 位买家共 { $requests } 次请求，其中 { $again } 位请求两次。
command-sale-is-no-longer-listed = 该场秒杀已不在列表中
command-sent = { $command }：等待引擎应答
command-there-are-no-pending-entries = 没有待确认消息，无需制定计划
command-there-is-no-entry = 没有可标记的行
command-there-is-no-sale-to-change = 没有可操作的秒杀
command-these-entries-are-no-longer = 这些消息已不再是待确认状态
command-this-view-has-no-rows = 此视图没有可筛选的行
command-try-again-once = { $away }，恢复后请重试
command-value = { $views }（{ $action }）
command-value-2 = { $count }  { $verdict }：{ $action }
command-waiting-for-engine = 等待引擎应答
command-with-no-rate-limit = 不限速

## common

common-admitted = 准入
common-attempts = 请求
common-audit = 对账
common-buyers = 买家
common-create = 新建
common-dead = 死信
common-empty = {""}
common-end = 结束
common-entries = { $count } 条消息
common-in-flight = 在途
common-lag = 积压
common-named = { $name }：{ $text }
common-node = 节点
common-node-failure = 节点宕机
common-none = 无
common-old = { $age }前
common-orders = 订单
common-pending = 待确认
common-persisted = 落库
common-reading = 读取中
common-reason = 原因
common-state = 状态
common-stock = 库存
common-stream = 消息流
common-time = 时间
common-unknown = 未知
common-user = 用户
common-verdict = 判定

## console

console-admission = 准入
console-ago = { $span }前
console-alive = 在线
console-all-marked = 已标记全部 { $count }
console-and-more = 另有 { $count } 个
console-and-more-press-for-all = 另有 { $count } 场，按 { KEY("sales") } 查看全部
console-at-time-in = { $time }，{ $span }后
console-attention = 告警
console-any-key-closes = 按任意键关闭
console-audit-failed = 对账不符
console-audit-open = 对账待定
console-audit-passed = 对账通过
console-audit-unknown = 对账未知
console-busy = 繁忙
console-cause = { $cause ->
    [due] 按计划
    [missed] 补跑
    [operator] 手动
   *[other] { $cause }
}
console-command = 命令
console-dead = 失联
console-dismisses = { $error }（{ KEY("back") } 关闭{ $more ->
        [0] {""}
       *[other] ，另有 { $more } 条
    }）
console-drains-in = 约 { $steady }后清空
console-duplicate = 重复
console-ended-left = 已结束，剩 { $left }
console-ends-in = 距结束 { $clock }
console-from = { $begin } 起
console-frozen = 已冻结
console-history = 运行历史
console-in = { $span }后
console-in-flight = { $orders } 笔在途
console-is-no-longer-listed = #{ $voucher } 已不在列表中
console-jobs-have-not-been-loaded = 定时任务尚未载入。
console-kept = 保留 { $entries }
console-keys = 按键
console-left-waiting = 剩余 { $left }，{ $waiting } 个在等
console-locks-unknown = 锁的状态未知：其所在的 Redis 服务器无法连接。
console-marked =
    已标记 { $count }{ $hidden ->
        [0] {""}
       *[other] ，隐藏 { $hidden }
    }
console-max = 最大
console-next-by-schedule = { $next }（{ $schedule }）
console-no-end = 不过期
console-no-group = 无消费组
console-no-lock-is-held = 当前没有被持有的锁。
console-no-matching-command = 没有匹配的命令。
console-no-node = 无节点
console-no-open-alarms = 没有未处理的告警。
console-no-recent-requests-through = 本节点最近无请求
console-no-row-contains-press = 没有行包含“{ $text }”，按 { KEY("back") } 清除筛选。
console-no-runs-yet = 尚无运行记录。
console-no-sales-yet-press = 还没有秒杀，按 { KEY("new-sale") } 新建一场。
console-not-in-redis = 不在 Redis
console-of-on-this-page = 本页 { $shown } / { $of }
console-oldest = 最早 { $steady }前
console-open-end = 不限时间
console-orders-per-second = 每秒订单
console-orphan = 失联
console-paused = 已暂停
console-pending = 待确认
console-phase = { $phase ->
    [planned] 未开始
    [running] 进行中
    [paused] 已暂停
    [sold_out] 已售罄
    [ended] 已结束
    [archived] 已归档
   *[other] { $phase }
}
console-range-of = 第 { $first }–{ $last } 条，共 { $total } 条
console-read-only = 只读
console-redis-is-unreachable-rows = Redis 不可达，数据未知，正在重试。
console-database-is-unreachable-rows = 数据库不可达，数据未知，正在重试。
console-rejected = 拒绝
console-rush = 压测
console-shown-of = { $shown } / { $of }
console-since-for-depth = 自 { $since } 起，已 { $span }，重入 { $depth } 层
console-sold-out = 售罄
console-starts = { $time } 开始
console-starts-in = 距开始 { $clock }
console-stock = 库存
console-there-is-no-guide = 当前没有演示或演练
console-to = { $begin } 至 { $end }
console-unmarked = { $view ->
    [dead] { $count } 条已标记的死信已不在，标记已取消
    [ledger] { $count } 场已标记的秒杀已不在列表中，标记已取消
   *[pending] { $count } 条已标记的消息不再待确认，标记已取消
}
console-until = 至 { $end }
console-waiting-for-first-snapshot = 正在等待引擎的第一份快照。
console-window-too-small-x-minimum = 窗口过小：{ $width }x{ $height }；至少 60x15，完整显示需 80x24
console-without-partitions = 缺少 { $count } 个分区（{ $numbers }）

## context

context-always = 任何时候
context-button = 表单按钮
context-confirm = 确认框
context-filter = 筛选
context-form = 表单
context-help = 帮助
context-palette = 命令
context-presenter = 演示
context-views = 所有视图

## conventions

conventions-all-are-marked-press = 已全部标记，按 { KEY("mark-all") } 取消
conventions-are-loaded-in-pages = 共 { $total } 条，按 ID 分页读取；仅一页时才支持排序
conventions-close-before-suspending = 请先关闭此窗口；挂起会使节点一并停住
conventions-closes-this-then-press-again = { $text }，按 { $close } 关闭此处，再按一次 { $again }
conventions-copied = 已复制：{ $what }{ $in_tmux ->
        [true] ；tmux 需设置 '{ $setting }' 才会传给终端
       *[false] {""}
    }
conventions-default-order-restored = 已恢复默认顺序
conventions-display-is-paused-press = 画面已冻结，按 { KEY("freeze") } 恢复后才能读取更多
conventions-in = 见 { $views }
conventions-more-than-one-page = 已超过一页，恢复按 ID 排序
conventions-mouse = { $is_enabled ->
    [true] 已启用鼠标，可选择行和页签；停用后可在终端中选取文字
   *[false] 已停用鼠标
}
conventions-no-details-are-open-press = 没有打开的详情；按 { KEY("open") } 打开
conventions-no-row-is-selected-use = 未选中任何行；用 { KEY("up") } { KEY("down") } 选择
conventions-no-sort-column-press = 未选择排序列；按 { KEY("sort-next") } 选择
conventions-pasted-text-was-truncated = 粘贴内容已截断为 { $kept } 个字符
conventions-question-has-just-appeared-read = 确认框刚刚弹出；请看清后再按 { KEY("accept") }
conventions-read-only-mode-commands = 只读模式：操作已禁用；去掉 --read-only 重新启动
conventions-select-sale-with-and-then = 请先用 { KEY("up") } { KEY("down") } 选中要操作的秒杀，再按一次 { $again }
conventions-sorted = { $is_descending ->
    [true] 按“{ $head }”降序
   *[false] 按“{ $head }”升序
}
conventions-sorted-by-of-these = 仅本页 { $rows } 条按“{ $head }”排序
conventions-stream-is-always-in-delivery = 消息流只能按投递顺序显示
conventions-these-rows-cannot-be-sorted = 这些行不支持排序
conventions-this-affects-type-that-number = 涉及 { $count } 条：请先输入该数字，再按 { KEY("press") }
conventions-this-view-has-no-table = 本视图没有表格
conventions-type-to-confirm = 输入 { $count } 以确认
conventions-used-before = 最近使用

## demo

demo-audit-failed = 对账不符
demo-audit-failed-text = { $finding }。按 q 结束演示。
demo-audit-passed = 对账通过
demo-audit-passed-text = 准入 { $pieces }，落库 { $pieces }，Redis 和 SQL 的库存都是 0。接下来是第二场秒杀，期间会发生故障。
demo-consumer-unresponsive = 消费者无应答；'seckill doctor' 可检查服务器
demo-countdown = 秒杀即将开始
demo-countdown-text = { $buyers } 位买家抢 { $pieces } 件。以 Redis 时钟为准，开始前不准入任何订单。
demo-json-needs-headless = --json 须与 --headless 一起使用
demo-load-test-failed = 压测失败：{ $why }
demo-load-test-text = Redis 批量准入；每 { $one_in } 位买家有一位重复请求，不会得到第二单。消费者暂停，积压上升。
demo-name = 演示
demo-next = 接下来：'seckill drill' 演练故障恢复，'seckill sale create' 创建自己的秒杀。
demo-no-servers = { $what }使用临时服务器，不保留数据；请去掉 { $flag }
demo-node-dead-text = { $DYING_NODE } 宕机，持有 { $stuck } 笔已准入未落库的订单。按 4 查看，A 制定恢复计划，y 执行。
demo-peak-load = 流量高峰
demo-rate = 对比测试：每秒落库订单
demo-rate-of-the-tutorial = 对比测试：教程的消费者
demo-ratio = 倍数
demo-recovered = 已恢复并验证
demo-recovered-text = 恢复订单 { $stuck } 笔，SQL 中共 { $all } 笔，逐笔核对订单号。无丢失，无重复。按 q 结束演示。
demo-sale-title = 火锅五折
demo-script-failed = 演示失败：{ $why }
demo-second-sale-title = 奶茶 9.9 元
demo-sold-out = 已售罄
demo-sold-out-text = 每件都已售出，没有超卖。消费者恢复：每个事务写入 { $batch } 笔订单，放慢以便看清。期间演示持有一把由看门狗续期的锁，见“锁”。
demo-timeout = { $what }等待订单超过一分钟；请用 'seckill doctor' 检查本机
demo-title = 演示

## director

director-armed = 倒计时 { $left }
director-arms-one = 没有已安排的开抢，按 { KEY("arm") } 安排
director-cancelled-was-not-started-nothing = 已取消开抢：{ $subject }，秒杀没有开始，未做任何更改
director-console-was-suspended = 控制台曾被挂起，已晚了 { $late }
director-countdown-in-seconds = 倒计时秒数，1 到 3,600
director-database-is-unreachable = 数据库不可达
director-database-rejects-writes = 数据库拒绝写入
director-events =
    { $start }
    随后 { $buyers } 位买家{ $seconds ->
        [0] 不限速请求
       *[other] 在 { $seconds } 秒内请求
    }{ $twice ->
        [0] {""}
       *[other] ，其中 { $twice } 位请求两次
    }。
    会产生真实订单并占用库存。
director-id-of-planned-sale = 未开始的秒杀编号；填标题则新建
director-is-not-planned-sale-enter = #{ $id } 不是未开始的秒杀；填写标题可新建
director-launch-is-scheduled-press = 已定时开抢，请先按 { KEY("abort") } 取消
director-launch-of-cancelled-nothing = 开抢已取消，秒杀没有开始（{ $subject }）：{ $why }；按 { KEY("arm") } 可重新安排
director-leave-this-empty-for-planned = 已有秒杀的库存已设定，请留空
director-new-sale = 新秒杀“{ $title }”
director-no-launch-is-scheduled-and-no-load = 没有已安排的开抢，也没有进行中的压测
director-no-requests-will-be-sent = 不再发送请求，秒杀开始后立即暂停
director-opening = 正在开始
director-pieces = { $title }，{ $count } 件
director-pieces-of-new-sale = 新秒杀的件数；已有秒杀留空
director-redis-is-unreachable = Redis 不可达
director-redis-rejects-writes = Redis 拒绝写入
director-sale = 秒杀
director-sale-is-being-started-load = 正在开始秒杀，随后压测
director-sale-is-created-with-pieces = 新建秒杀“{ $title }”，{ $count } 件，立即开放。
director-sale-is-no-longer = 该场秒杀已不是未开始状态
director-sale-starts-by-itself = 该场秒杀将在 { $left } 后自行开始，请填更小的值
director-sale-starts-by-itself-before = 该场秒杀会在倒计时结束前自行开始
director-schedule-launch = 定时开抢
director-scheduled-starts-in-s-press = 已定时开抢：{ $subject }，{ $seconds } 秒后开始，按 { KEY("abort") } 取消
director-several-load-tests-are-running = 有多场秒杀正在压测，请先用 { KEY("up") } { KEY("down") } 选中一场，再按一次 { KEY("abort") }
director-spread-over-so-many-seconds = 请求分布的秒数，0 为不限速
director-start-in = 倒计时
director-starts-with-pieces-before = #{ $id } 开始，{ $count } 件，早于计划时间。
director-stock-changed = 库存已由 { $asked } 变为 { $now }
director-with-buyers = { $subject }，{ $buyers } 位买家
director-within = 时长

## done

done-applied = 此前已处理 { $done } / { $planned } 条，可再次执行该计划以继续
done-claimed = 此前已转移 { $done } 条消息，其余请重新执行
done-discarded = 此前已丢弃 { $done } 条死信，其余请重新执行
done-nothing-in-sql = SQL 中的库存未变；已从 Redis 取出的库存，在 Redis 恢复后由运行中的节点放回
done-removed = 此前已从分区 { $partitions } 移除，其余请重新执行
done-repaired = 此前已修复 { $done } / { $planned } 场：{ $sales }，其余请重新执行
done-replayed = 此前已重放 { $done } 条死信，其余请重新执行
done-rewound = 此前分区 { $partitions } 的消费组已回退，其余请重新执行

## drill

drill-aborted = 演练提前退出，没有结果
drill-about = { $drill ->
    [consumer-killed] 节点在持有一批订单时宕机
    [poison] 正常消息中混入无效消息
    [database-away] 压测期间数据库拒绝连接
    [redis-away] 压测期间 Redis 被强制终止
    [group-destroyed] 消费组连同待确认消息被销毁
    [stream-trimmed] 失联节点的待确认消息被裁剪
    [duplicates] 生产者重复写入消息
    [clock-step] 订单号时钟前跳 25 小时再跳回
   *[other] { $drill }
}
drill-check = { $drill ->
    [consumer-killed] 失联节点的订单都已落库，且不重复
    [poison] 有效订单全部落库，无效消息均未落库
    [database-away] 中断期间准入的订单已落库
    [redis-away] 压测继续，落库订单多于故障之前
    [group-destroyed] 消费组丢失的订单都已落库，且不重复
    [stream-trimmed] 重建的订单都已落库，且不重复
    [duplicates] 没有重复落库的订单
    [clock-step] 两次跳变中订单号一直递增，没有重复
   *[other] { $drill }
}
drill-check-admitted-in-sql = 已准入的订单全部落库
drill-check-audit = 对账通过，逐笔订单一致
drill-check-no-dead-letters = 没有死信
drill-check-plan = 计划包含全部受影响消息
drill-check-repaired = 故障已修复
drill-check-seen = 画面已显示故障
drill-check-settled = 没有在途订单
drill-debriefing = 故障：{ $about }。{ $text }
drill-done = 处理
drill-exam = 查找故障
drill-exam-text = 找出原因，必要时修复。按 { KEY("guide-next") } 获取提示。
drill-failed = 未通过
drill-failed-text = 未通过：{ $wrong }。按 q 结束演练。
drill-false = 不成立
drill-fault = { $drill ->
    [consumer-killed] node-b 宕机，持有 { $n } 笔订单。“告警”给出条数，按 4 可见这些消息。
    [poison] 正常消息中混入 { $n } 条无效消息。“告警”给出死信条数，按 5 可见。
    [database-away] 数据库暂时拒绝连接。“告警”会提示，按 3 可见积压。
    [redis-away] 压测中 Redis 被强制终止。“告警”会提示，按 0 可见时间。
    [group-destroyed] 消费组连同待确认列表被销毁。“告警”会提示，按 3 可见没有消费者。
    [stream-trimmed] node-b 宕机，持有 { $n } 条消息，且消息内容已丢失。按 4 可见每条都是“内容丢失”。
    [duplicates] { $n } 条消息被重复写入消息流。按 3 可见积压。
    [clock-step] 订单号时钟前跳 25 小时再跳回，其间仍有秒杀。按 7 可见订单号。
   *[other] { $drill }
}
drill-found = 查看详情用时
drill-get-ready = 准备
drill-get-ready-text = 即将开抢，共 { $STOCK } 件。可在另一个终端用 --data-dir { $dir } 操作。
drill-hints = 提示
drill-hints-of = { $hints } / { $all }
drill-load-test-text = { $users } 位买家来抢 { $STOCK } 件。
drill-load-test-title = 压测
drill-more-sales-text = 接下来还有两场秒杀，请留意。
drill-name = 演练
drill-never = 从未
drill-of-seed = { $drill }，种子 { $seed }
drill-passed = 通过
drill-passed-text = 每笔订单都已按订单号核对。按 q 结束演练。
drill-redis-not-killed = 无法终止 Redis：{ $why }
drill-redis-not-managed = 它不是由本程序启动的，请去掉 --redis
drill-redis-without-pid = 它没有报告进程号
drill-remedy = { $drill ->
    [consumer-killed] 按 4 查看它持有的消息，按 A 制定计划，按 y 执行。待确认须降为 0。
    [poison] 按 5 查看，* 全部标记，D 丢弃；或另开终端：seckill --data-dir { $dir } dead discard --all
    [database-away] 无需操作：订单暂存在消息流中，数据库恢复后自动落库。
    [redis-away] 无需操作：下一个用到 Redis 的进程会重新启动它，买家稍后得到应答。
    [group-destroyed] 无需操作：节点重建消费组并重新读取消息流，SQL 中已有的直接确认。
    [stream-trimmed] 按 4 查看，A 制定计划（按买家名单重建），y 执行。节点等待操作。
    [duplicates] 无需操作：每条都已在 SQL 中，直接确认，不会重复落库。
    [clock-step] 无需操作：按 7 可见订单号前后递增，没有重复。
   *[other] { $drill }
}
drill-repaired = { $drill ->
    [consumer-killed] 没有待确认消息
    [poison] 没有剩余的死信
    [database-away] 告警：数据库已恢复，并显示中断时长
    [redis-away] 告警：Redis 已恢复，并显示中断时长
    [group-destroyed] 消费组已重建，没有待确认消息，没有积压
    [stream-trimmed] 没有待确认消息
    [duplicates] 没有积压和待确认消息
    [clock-step] 两次跳变期间秒杀照常进行
   *[other] { $drill }
}
drill-repaired-after = 恢复用时
drill-report-failed = 未通过。
drill-report-passed = 通过。
drill-script-failed = 演练失败：{ $why }
drill-seen = 现象
drill-solved = 已恢复
drill-solved-text = 请到“对账”查看逐笔核对的结果。
drill-symptom = { $drill ->
    [consumer-killed] 告警：失联消费者持有 { $n } 条消息
    [poison] 告警：{ $n } 条死信待人工处理
    [database-away] 2 秒内告警：数据库不可达
    [redis-away] 告警：Redis 曾不可达
    [group-destroyed] 告警：消息流没有消费组
    [stream-trimmed] 失联消费者持有 { $n } 条消息，且消息内容已丢失
    [duplicates] 消息流：积压 { $n }
    [clock-step] 两次跳变后没有告警，对账通过
   *[other] { $drill }
}
drill-title = { $drill ->
    [consumer-killed] 节点宕机
    [poison] 毒消息
    [database-away] 数据库中断
    [redis-away] REDIS 被强制终止
    [group-destroyed] 消费组丢失
    [stream-trimmed] 消息被提前裁剪
    [duplicates] 重复消息
    [clock-step] 时钟跳变
   *[other] { $drill }
}
drill-todays-tea = 今天的茶
drill-tomorrows-tea = 明天的茶
drill-true = 成立

## durability

durability-confirmed = 已应答买家的准入不会丢失，前提是被提升的从节点确认过
durability-damage = 数据库可能损坏，其中的数据可能全部丢失
durability-half-minute = 最近半分钟的准入（已写入 SQL 的除外）
durability-last-commits = SQL 中最近一秒的订单；'seckill audit' 会列出，买家仍在 Redis 中时可用 --repair 重新写入
durability-last-seconds = 最近两秒的准入（已写入 SQL 的除外）
durability-nothing = 无
durability-put-back = 节点存活且正常响应时无损失：各节点会恢复自己最近 30 秒内的准入
durability-standstill = 不丢订单，只会停机：不会提升从节点，秒杀须等服务器恢复
durability-undelivered = 尚未写入 SQL 的全部准入
durability-unknown = 未知：无法读取服务器配置
durability-unmanaged = 未知：该 URL 只指向一台服务器。不丢订单，只会停机；但若代理或运维人员提升了从节点，则为故障主节点尚未复制的数据（准入它的节点已不在时）
durability-unsent = 故障主节点尚未复制的数据，除非准入它的节点存活并将其恢复
durability-waiting = 等待写入 SQL 超过 30 秒的订单；其余由 SQL 和各节点恢复

## error

error-audit-failed = 对账不符：{ $finding }
error-broke-off = { $why }；{ $done }
error-busy = 引擎待处理的操作过多，请稍后再试
error-foreign-redis = { $address } 的 Redis 属于另一个数据库，请用 --database 指定与它对应的数据库，或换用空的 Redis
error-has-started = #{ $sale } 已经开始
error-is-paused = #{ $sale } 已暂停，请改用恢复操作
error-long-reason = 原因有 { $characters } 个字符、{ $bytes } 字节，审计日志最多 { $most } 个字符、{ $most_bytes } 字节，请缩短
error-lost-in-sql = SQL 丢失了 #{ $sale }，而 Redis 中仍有该场：它不再放行任何请求，订单等待写入；请用 'seckill audit --repair' 从 Redis 恢复
error-name-taken = 名为“{ $name }”的节点已在线，请在配置文件中用 node 另取一个名字
error-no-job = 没有任务“{ $job }”，可用 'seckill jobs list' 查看
error-not-held = Redis 中 #{ $sale } 的数据不完整，无法得知未售数量；运行中的节点会在一秒内补齐（可用 'seckill work' 启动节点）
error-not-loaded = #{ $sale } 的变更已提交到 SQL，但尚未同步到{ $count ->
    [0] {" "}Redis
   *[other] 分片 { $shards }
}（{ $why }）。运行中的节点会继续同步
error-operator-just-finished = 另一位操作员的操作刚刚结束，请重新运行该命令
error-other-operator = 另一位操作员正在操作（{ $who }），请等待其完成；若其进程已失联，{ $seconds ->
    [0] 请先用 'seckill locks release operator' 释放其锁
   *[other] 请在 { $seconds } 秒后（其锁到期时）重新运行该命令，或先用 'seckill locks release operator' 释放其锁
}
error-other-sale = Redis 中的 #{ $sale } 与 SQL 中的不是同一场：请使用与之对应的 --database，或用 'seckill audit --repair' 从 SQL 载入
error-oversold = #{ $sale } 在 Redis 中的买家多于库存，该场保持关闭；用 'seckill sale restock' 补足库存，再运行 'seckill audit --repair'
error-read-only = 只读模式不接受操作，去掉 --read-only 重新启动后可更改
error-reconciling = “{ $key }”正在按 SQL 补齐，尚不可用，请稍后重试
error-second-redis = 该数据库在一分钟内曾与另一个 Redis 一起使用，而 { $address } 的 Redis 中没有它的键：请检查 --redis；如果它已取代前者，请在 { $seconds } 秒后重试
error-shards = { $shards } 个分片需要同样多的分区，当前部署只有 { $most } 个；请减少分片，或停止所有节点后用 'seckill work --partitions { $shards }' 启动一个
error-short = 不能从 #{ $sale } 减少 { $by } 件：未售 { $left } 件；请减少件数，或结束该场
error-sql-behind = SQL 缺少 #{ $sale } 最近的变更，而 Redis 中有：请先用 'seckill audit --repair' 将该场从 Redis 写入 SQL，再重新操作
error-stopped = 引擎已停止，请退出后重新启动
error-stopping = 引擎正在停止，请在其恢复运行后重试
error-unchecked = 无法得知 Redis 中 #{ $sale } 的版本是否更新：Redis 无响应、拒绝命令，或丢失了该场的部分数据。未做任何修改，请在 'seckill status' 正常后重试

## event

event-clock-skew = Redis 的时钟比{ $of ->
    [database] 数据库
   *[node] 节点 { $node } {""}
}{ $side ->
    [ahead] 快
   *[behind] 慢
} { $seconds } 秒
event-dead-holds = 失联，持有 { $pending } 条消息
event-dead-letters = { $count } 条待人工处理
event-foreign-key = 存有 { $holds }，不是本程序写入的
event-lag = 积压 { $lag } 条，几乎没有减少
event-lasted = 持续 { $seconds } 秒
event-no-group = 不存在
event-no-heartbeat = 已 { $seconds } 秒无心跳，其消息由在线节点接管
event-node-back = 心跳恢复，中断 { $seconds } 秒
event-omitted = 一分钟内省略 { $lines } 条，详见日志文件
event-orders = { $orders } 笔订单
event-sale-mended = Redis 中该场的字段与 SQL 不符，已恢复；原为 { $fields }
event-run-failed = 上次运行失败：{ $why }
event-silent-holds = 停滞，持有 { $pending } 条消息
event-stopped = 正常停止
event-time-zone = cron 表达式改按 { $to }，原为 { $from }：本节点的配置如此
event-unconfirmed = { $wanted } 个副本中只有 { $replicas } 个确认订单
event-unknown-holds = 不是已知节点，持有 { $pending } 条消息
event-zones-differ = 各节点要求的时区不同：{ $zones }

## export

export-and-following-names-exist-move = { $path } 及后续文件名均已存在；请移走一些文件，或另指定 { $DIR_FLAG }
export-cannot-write-fix = 无法写入 { $path }（{ $why }）；请排除原因，或另指定 { $DIR_FLAG }
export-export = 导出
export-export-failed-try-again = 导出失败；请重试
export-format =
    { $format ->
        [txt] 屏幕，纯文本
        [ansi] 屏幕，彩色文本（ANSI）
        [svg] 屏幕，图片（SVG）
        [csv] 表格，CSV
       *[json] 表格，JSON
    }
export-frames-bytes-on-average-last = 已绘制 { $frames } 帧，平均 { $mean } 字节，最近 { $last } 字节
export-into = 写入：{ $dir }
export-no-rows = 无数据
export-of-rows = { $rows } / { $total } 行
export-rows = { $rows } 行
export-rows-there-are-more = { $rows } 行，还有更多
export-table-not-as-json = 无法将表格导出为 JSON（{ $why }）；可改用 CSV
export-the-working-directory = 当前目录
export-there-are-no-rows = 没有可导出的行；可导出屏幕
export-writing-the-file = 正在写入文件
export-written-to = 已写入 { $path }
export-written-to-loaded-rows-only = { $rows }已写入 { $path }；仅限已载入的数据

## faults

faults-cannot-be-negated-works = { $field } 不能取反；“!”可用于 user=、voucher=、status= 以及 unpaid 等状态
faults-clock = 时钟为 1970 年起 { $seconds } 秒，超出订单号可表示的 2022 至 2090 年，请校准时钟
faults-entry-id = “{ $text }”不是消息 ID，形如 1795000000000-0
faults-field-garbage = 字段 { $field } 的值“{ $value }”不是数字
faults-field-is-never-use-one = 字段 { $field } 没有值“{ $value }”；可用 { $words }
faults-field-missing = 缺少字段 { $field }
faults-foreign-key = Redis 的键“{ $key }”存有 { $holds }，不是本程序写入的；请改名（RENAME { $key } { $aside }），再运行 'seckill audit --repair'
faults-foreign-lock = Redis 的键“{ $key }”存有 { $holds }，不是本程序写入的；请改名（RENAME { $key } { $aside }）
faults-is-not-valid-for-field = “{ $value }”不能用于字段 { $field }，该字段应为{ $takes }
faults-is-not-valid-takes-number = { $field }='{ $value }' 无效；{ $field } 须填数字
faults-limit = 每人限购不能为 { $limit } 单，请填 1 到 { $most }
faults-no-buyer-in-redis = Redis 中没有以此订单号准入的买家
faults-not-a-number = 非数字文本
faults-order-bought-again = 该订单已退还：买家 { $user } 此后再次购买，新订单为 { $order }
faults-order-closed-later = 买家 { $user } 之后的订单 { $order } 已关闭
faults-order-gone = 消息内容已不在消息流中
faults-order-foreign = 买家 { $user } 在 #{ $voucher } 的名额已被其他程序插入的行 { $row } 占用
faults-order-holds = 买家 { $user } 已持有 #{ $voucher } 的订单 { $holds }
faults-order-id = “{ $text }”不是订单号，订单号为不超过 19 位的十进制数
faults-order-id-taken = 订单号 { $order } 属于另一笔订单
faults-order-promised = Redis 重启前已准入，但买家现持有订单 { $order }
faults-order-refused = 数据库拒绝：{ $reason }
faults-order-status = “{ $text }”不是订单状态；可用 unpaid、paid、used、cancelled、closed
faults-order-time = 没有 { $at } 的订单；订单号的时间在 2022 到 2090 年之间
faults-order-too-often = 已投递 { $times } 次，仍没有订单
faults-order-unkept = Redis 重启前已准入，但已无库存
faults-order-window = 不存在 { $from } 之后且 { $to } 之前的订单；请对调两个时间
faults-over = 结束时间 { $end } 已过，请填更晚的时间
faults-phone = “{ $text }”不是手机号，手机号为 11 位数字
faults-place = “{ $place }”不是有效的买家名额，形如 7 或 7/2
faults-query-field = 不能按“{ $field }”查订单；可用 id、user、voucher、status、from、to
faults-query-term = “{ $term }”不是查询条件；可填订单号，或 user=1001、voucher=7、paid、!status=paid、from=14:30、to=-5m
faults-query-twice = { $field } 出现两次；只能指定一次
faults-range = { $name } 为 { $value }，须在 { $least } 到 { $most } 之间
faults-restock = 库存不能调整 { $by } 件，请填 1 到 { $most } 以增加，或填 -1 到 -{ $most } 以减少
faults-role = “{ $text }”不是角色，可用的角色只有 operator
faults-rules = 使用规则须为 1 到 { $most } 个字符，除换行外不得含控制字符
faults-sale-state = “{ $text }”不是秒杀的状态；可用 running、paused、ended、archived
faults-sequence = 当天的 4,294,967,295 个订单号已用尽，请等到下一个 UTC 日
faults-shard = '{ $text }' 不是分片；格式为“券号/分片数”，例如 7/3
faults-shard-id = '{ $text }' 不是分片；格式为“券号”或“券号.分片号”，例如 7.3
faults-shards = 分片数不能为 { $shards }，请填 1 到 { $most }
faults-shards-pieces = { $shards } 个分片每个至少一件，而库存为 { $stock } 件；请减少分片
faults-stock = 库存不能为 { $stock }，请填 1 到 { $most }
faults-sub-title = 副标题须为一行，1 到 { $most } 个字符，不含控制字符
faults-takes-entry = 消息 ID，形如 1795000000000-0
faults-takes-number = 整数
faults-takes-span = 时长，形如 250ms、90s、5m、2h
faults-takes-text = 文本
faults-term = “{ $term }”不是筛选条件；形如 'idle>30s'，比较符为 = != < > ~ !~ 之一
faults-term-field = 没有可筛选的字段“{ $name }”；可用 { $known }
faults-term-test = 字段 { $field } 不支持“{ $test }”；可用 { $takes }
faults-there-is-no-sale = 没有秒杀 #{ $voucher }
faults-there-is-no-shard = { $shard ->
    [0] 消息没有写明分片，而秒杀 #{ $voucher } 是分片销售的
   *[other] 秒杀 #{ $voucher } 没有分片 { $shard }
}
faults-time = “{ $text }”不是可识别的时间；可填 2026-11-20T14:30:00Z、2026-11-20 14:30（本地时间）、14:30（今天）、+10m、-10m
faults-time-skipped = { $text } 在本时区不存在（时钟跳过了这一小时）；请换个时间，或写明时差
faults-time-twice = { $text } 在本时区出现两次（时钟重复了这一小时）；请写 { $first } 或 { $second }
faults-title-control = 标题含控制字符（换行、制表符、终端转义符），请去掉
faults-title-empty = 标题为空，请填 1 到 { $most } 个字符
faults-title-heavy = 标题有 { $bytes } 字节，多为附加符号，最多 { $most } 字节
faults-title-long = 标题有 { $length } 个字符，最多 { $most } 个
faults-voucher-has-no-stock-left = #{ $voucher } 在 SQL 中库存不足，无法落库
faults-voucher-id = “{ $text }”不是优惠券编号（应为正整数），请在秒杀列表中查看
faults-voucher-status = “{ $text }”不是优惠券的状态；可用 on、off、expired
faults-window = 结束时间（{ $end }）早于开始时间（{ $begin }），请对调
faults-zone = TZ 指定的时区“{ $zone }”在本机不存在；请改为 Asia/Shanghai 之类，或取消设置

## field

field-address = 地址
field-answers = 响应
field-connections = 连接
field-entry = 消息
field-held = 持有
field-holder = 持有者
field-latency = 延迟
field-lease = 租期
field-limited = 限流
field-lock = 锁
field-next = 下次
field-notice = 提示
field-order = 订单
field-owner = 持有标识
field-persisted = 已落库
field-repair = 修复
field-result = 结果
field-sale = 秒杀
field-task = 任务
field-token = 栅栏令牌
field-top-addresses = 高频地址
field-top-users = 高频用户
field-window = 起止时间

## figures

figures-0-s = 0.{ $tenths } 秒
figures-d = { $plain } 天
figures-h = { $hours } 小时
figures-min = { $minutes } 分钟
figures-s = { $seconds } 秒

## forms

forms-begin = 开始
forms-change = 数量
forms-distinct-users = 不同用户数，1 到 10,000,000
forms-empty-none-1h = 留空不结束；15:00、+1h、2026-11-20 15:00
forms-empty-now-10m = 留空即开始；14:30、+10m、2026-11-20 14:30
forms-give-to = 请填 { $least } 到 { $most }
forms-go-on = 继续
forms-is-not-integer = 请输入整数
forms-limit = 限购
forms-new-sale = 新建秒杀
forms-orders-per-user = 每人限购的订单数，1 到 20
forms-parts-of-the-stock = 1 到 64，不超过分区数
forms-percentage-that-requests-twice = 重复请求的百分比，0 到 100
forms-pieces-on-sale = 库存件数
forms-pieces-to-add-or-remove = 件数：500 表示增加，-20 表示减少未售出的
forms-plan-appears-here-once-both = 两个数字都有效后，这里显示计划。
forms-restock = 调整库存：{ $sale }
forms-rush-on = 压测 { $sale }
forms-shards = 分片
forms-title = 标题
forms-twice = 重复
forms-what-buyers-read = 买家看到的名称

## group

group-alive = “{ $name }”的节点在线，会重新创建该消费者，请停止节点，或等到它被视为失联
group-and-more = { $names } 等，另有 { $more } 个
group-changed = 分区 { $partition }：其间{ $change }，该分区未做更改，请重试
group-consumer-gone = 分区 { $partition } 中已没有消费者“{ $name }”，可用 'seckill stream show' 查看
group-created = 消费组已被创建
group-destroyed = 消费组已被销毁
group-first-trimmed = 第一条消息已被裁剪或删除
group-forward = { $to } 在分区 { $partition } 消费组已投递位置 { $delivered } 之后，前移会跳过订单，只能回退
group-holds = “{ $name }”仍持有分区 { $partition } 的 { $pending } 条消息，移除会丢失它们；请先用 'seckill pending apply --filter holder={ $name }' 处理，或用 'seckill stream claim --from { $name } --to CONSUMER' 转移
group-idle = “{ $name }”不属于在线节点，转移给它的消息无人处理，请另选一个，或加 --force
group-moved-back = 消费组已被回退
group-no-consumer = 任何分区中都没有消费者“{ $name }”，现有消费者：{ $existing }
group-no-consumer-in = 分区 { $partition } 中没有消费者“{ $name }”，现有消费者：{ $existing }
group-no-partition = 没有分区 { $number }，最后一个是 { $last }
group-no-stream = 分区 { $number } 的消息流不存在或为空，没有可投递的消息；可用 'seckill stream show' 查看
group-none = 无
group-nothing = 分区 { $number } 没有消息会重新投递：该位置与最后投递的消息之间没有消息；可用 'seckill stream show' 查看
group-nothing-to-claim = 没有可转移的消息：这些消息都已不再待确认，或已由“{ $to }”持有；可用 'seckill pending list' 查看
group-nothing-to-claim-from = “{ $from }”没有可转移给“{ $to }”的消息，可用 'seckill pending list' 查看
group-other-partition = 消息 { $entry } 不属于分区 { $partition }，请不填分区，或填它自己的分区
group-position = “{ $text }”不是消息流中的位置；请填 start、消息 ID（如 1795000000000-0）或时间：2026-11-20T14:30:00Z、'2026-11-20 14:30'（本地时间）、14:30（今天）、-10m
group-trimmed = 分区 { $partition } 有 { $gone } 条更早的消息已被裁剪或删除，无法再投递；最早可从 { $first } 开始，或用 '--to start' 从头开始

## http

http-admitted = 下单成功
http-body = 请求体不完整
http-busy = 当前请求过多，请稍后重试
http-changed = 该秒杀刚被其他操作修改，请重试
http-defect = 内部错误，原因见服务端日志
http-duplicate = 不能重复下单
http-ended = 秒杀已经结束
http-failed = HTTP 服务出错（{ $error }）
http-files = 可打开文件数的限制（{ $limit }）没有给客户端连接留下余量；请用 ulimit -n 或 systemd 单元的 LimitNOFILE= 提高
http-json = 请求体不是预期的 JSON（{ $why }）
http-limited = 请求过于频繁，请稍后再试
http-listen = 无法监听 { $address }（{ $error }），请用 --listen 或 --admin-listen 另指定地址，或停止占用此地址的程序
http-login-limited = 此手机号、此地址或全站的验证码请求过于频繁，请在 { $seconds } 秒后重试
http-network = “{ $text }”不是网段，请使用 10.0.0.0/8、2001:db8::/32 这样的网段或单个地址
http-no-login = 此服务器未开启验证码登录，运营人员可用 --demo-login 开启
http-no-order = 您没有这个订单
http-no-path = 路径不存在，请检查请求地址
http-no-session = 未登录或登录已过期，请重新登录
http-no-stream = 消息队列不存在
http-no-voucher = 优惠券不存在
http-not-allowed = 仅限运营人员操作，请使用运营人员的令牌
http-not-loaded = 库存数据不存在
http-not-started = 秒杀尚未开始
http-one-address = 几乎所有请求都来自 { $address }，被视为同一客户端；如果它是代理，请加入 http.trusted_proxies
http-path = 路径无效，请检查请求地址
http-paused = 秒杀已暂停
http-pay-closed = 订单已关闭，不能支付
http-pay-dead = 订单处理失败，暂时不能支付
http-pay-queued = 订单正在写入，请稍后重试
http-pay-returned = 订单所属的秒杀正在或已经迁回原服务，请待迁回完成后在原服务支付
http-sale-not-on = 秒杀券不受优惠券状态约束，照样开售；请去掉 status，改用开始时间
http-shop = 商户编号为十进制数
http-slow-body = 请求体未在规定时间内到达
http-sold-out = 库存不足
http-tls = 无法将 { $path } 用于 TLS（{ $reason }），请提供 PEM 格式的证书及其私钥
http-too-large = 请求体过大
http-unavailable = 服务暂不可用，请稍后重试
http-unavailable-closed = 秒杀已关闭，待运维人员修复后恢复
http-unavailable-database = 数据库暂不可用，请稍后重试
http-unavailable-late = 请求未能及时处理，请稍后重试
http-unavailable-reconciling = 正在恢复 Redis 丢失的订单，请稍后重试
http-unavailable-redis = Redis 暂不可用，请稍后重试
http-unavailable-stopping = 服务正在停止，请稍后重试
http-unavailable-unconfirmed = 订单尚未确认，请稍后重试
http-uncertain = 结果未知，请先确认再重试
http-undecided = 暂时无法受理该请求，请稍后重试
http-voucher-status = 优惠券状态为 1（上架）、2（下架）或 3（过期）
http-voucher-type = 优惠券类型与路径不符：0 为普通券，1 为秒杀券
http-wrong-code = 验证码错误或已过期，请重新获取
http-wrong-method = 该路径不支持此请求方法

## job

job-about = { $job ->
    [archive-sales] 把早已结束的秒杀移出 Redis，SQL 中保留
    [check-ledger] 按订单号逐笔对账
    [close-overdue] 关闭超时未支付的订单，退还库存
    [drop-id-keys] 清除过往日期的订单号计数器
    [trim-stream] 裁剪各消费组都已确认的消息，清理旧死信和历史
   *[other] { $job }
}
job-archived = 归档 { $sales }
job-balanced = 对账通过
job-closed = 关闭 { $orders } 笔，退还 { $given_back } 件
job-archived-partly = 归档 { $rows } 场；跳过：{ $left_out }
job-closed-partly = 关闭 { $orders } 笔，退还 { $given_back } 件；跳过：{ $sales }；请在数据库中处理，库存错误可用 'seckill audit' 查出
job-known = “{ $job }”未运行：已有同一时刻或更晚的运行记录，可用 'seckill jobs history { $job }' 查看
job-left-out = 场次 #{ $sale }（{ $why }）
job-lock-lost = 已取消：锁已丢失
job-node-lost = 节点宕机或失联过久
job-node-stops = 已取消：节点正在停止
job-order-left-out = 场次 #{ $sale } 的订单 { $order }{ $more ->
    [0] {""}
   *[other] {" "}等另 { $more } 单
}（{ $why }）
job-ordinary-left-out = 普通券订单 { $order }{ $more ->
    [0] {""}
   *[other] {" "}等另 { $more } 单
}（{ $why }）
job-orphan = { $node } 持有“{ $lock }”但已失联；锁最迟 { $seconds } 秒后过期，也可手动释放：'seckill locks release { $lock }'
job-outcome = { $outcome ->
    [cancelled] 已取消
    [failed] 失败
    [lost] 中断
    [running] 运行中
   *[done] 成功
}
job-panicked = 程序异常：{ $message }
job-runs = { $node } 正在运行，请等待其结束，可用 'seckill jobs history' 查看
job-still-running = { $cancelled }；仍在运行
job-too-long = 已取消：超过最长时限 { $seconds } 秒
job-trimmed = 裁剪消息 { $entries } 条，清理任务记录 { $runs } 条
job-trimmed-consumers = ，失联消费者 { $consumers }
job-trimmed-held = ；{ $held } 起的消息尚未确认
job-trimmed-letters = ，死信 { $letters } 条

## lab

lab-aggregate-columns = 方案 | 样本 | 平均值 | 中位数 | 90 % | 95 % | 99 % | 最小值 | 最大值 | 错误 % | 请求/秒 | 请求/秒相对首个方案 | 平均值相对首个方案
lab-aggregate-title = 聚合报告（耗时单位为毫秒）
lab-alone = 这里只有实验室；按 { KEY("quit") } 退出，运行 'seckill' 打开控制台
lab-ask-hand-over = 如何让订单落库而买家不必等待？
lab-ask-locks = 持有者发生故障时，哪种分布式锁依然可靠？
lab-ask-one-order = 如何保证每个用户最多一单？
lab-ask-overselling = 如何保证售出数量不超过库存？
lab-broken = { $promise }：{ $seeds } 次中 { $count } 次
lab-called-at = 于 { $micros } 微秒发起
lab-cancelled = 实验已取消；其服务器已停止，文件已删除
lab-column-average = 平均 ms
lab-column-breaks = 违反
lab-column-broken = 违反的承诺（次数）
lab-column-design = 方案
lab-column-errors = 错误 %
lab-column-lost = 丢失
lab-column-mended-by = 改进方案
lab-column-orders = 订单
lab-column-oversold = 超卖
lab-column-per-second = 请求/秒
lab-column-question = 问题
lab-column-ratio-average = 相对首个
lab-column-ratio-per-second = 相对首个
lab-column-source = 出处
lab-column-two-orders = 有两单
lab-column-unsold = 未售出
lab-columns = 方案 | 订单 | 超卖 | 有两单的用户 | 未售出 | 丢失 | 每请求 SQL | 每请求 Redis | 违反承诺的次数
lab-cron-column-expression = cron 表达式
lab-cron-column-meaning = 含义
lab-cron-column-next = 接下来的触发时间
lab-cron-last-day = 每月最后一天 02:30
lab-cron-last-friday = 每月最后一个星期五 10:15
lab-cron-last-weekday = 每月最后一个工作日 18:00
lab-cron-nearest-weekday = 离 15 日最近的工作日 08:00
lab-cron-third-friday = 每月第三个星期五 09:00
lab-cron-time = { $at } { $day ->
        [1] 周一
        [2] 周二
        [3] 周三
        [4] 周四
        [5] 周五
        [6] 周六
       *[7] 周日
    }
lab-cron-two-seconds = 每两秒
lab-database = { $database } 未能启动：{ $reason }
lab-engine-voucher = 引擎所建秒杀的优惠券 ID 为 { $number }，与实验预期不符
lab-entry-malformed = 该消息不是订单
lab-few-requests = 锁持有者的每种故障单独运行一次：最多 { $buyers } 名买家、{ $concurrency } 个并发请求，库存足够。
lab-field-counts = 计数
lab-field-design = 方案
lab-field-failed = 失败
lab-field-mended = 修正方案
lab-field-question = 问题
lab-field-source = 出处
lab-field-speed = 速度
lab-field-verdict = 结论
lab-field-why = 原因
lab-form-apply = 应用
lab-form-buyers = 不同的用户数，1 到 10,000
lab-form-first = 起始种子
lab-form-first-hint = 决定请求的顺序和间隔时间
lab-form-incidents = 故障
lab-form-incidents-hint = all（全部）、none（无），或以逗号分隔的名称
lab-form-instances = 实例
lab-form-instances-hint = 轮流处理请求的进程数
lab-form-no-incident = 没有名为 '{ $name }' 的故障；请输入 all、none 或以下名称：{ $names }
lab-form-parallel = 并发
lab-form-parallel-hint = 所有进程同时处理的请求数
lab-form-seeds = 种子
lab-form-seeds-hint = 每个方案的运行次数，依次使用下一个种子
lab-form-stock = 待售件数
lab-form-think = 间隔
lab-form-think-hint = 检查与写入之间的毫秒数；越长越容易竞争
lab-form-title = 实验负载
lab-head-design = 方案
lab-head-lost = 丢失
lab-head-orders = 订单
lab-head-oversold = 超卖
lab-head-statements = SQL/请求
lab-head-time = 时间 µs
lab-head-two-orders = 重复下单
lab-head-verdict = 承诺
lab-holder-died = 进程在持有锁时被杀死
lab-incident-consumer-dies = 消费者在持有消息时被杀死，随后重新启动
lab-incident-failover = Redis 主从切换
lab-incident-holder-dies = 持有者宕机
lab-incident-holder-pauses = 持有者进程被暂停
lab-incident-holder-stalls = 持有者卡顿
lab-incident-no-subscriber = 消费者在最初的订单之后才启动
lab-incident-poison = 队列中混入一条不是订单的消息
lab-incident-restart = 每个实例在最后一次响应后被杀死，随后重新启动
lab-incidents = 故障：{ $incidents }。
lab-instance = 实验的实例 { $instance } 失败：{ $reason }
lab-instance-alone = 此命令只由“seckill lab”启动
lab-instance-ended = 进程提前结束
lab-instance-late = { $seconds } 秒内没有响应
lab-lane = 请求 { $request }：用户 { $user }，实例 { $instance }
lab-lane-consumer = 消费者（进程 { $process }）
lab-lane-consumer-task = 消费者（实例 { $process }）
lab-lane-holder = 请求 { $request }：用户 { $user }，持锁进程 { $process }
lab-list-hint = 用“seckill lab NAME…”运行其中几个，用“seckill lab --all”运行全部。
lab-lock-acquired = 加锁成功，令牌 { $token }
lab-lock-busy = A 仍持有锁
lab-lock-expired = { $lock } 已过期
lab-lock-first = 加锁 { $depth } 次，工作 { $hold } 毫秒；{ $every ->
        [0] 租期 { $lease } 毫秒，不续期
       *[other] 看门狗每 { $every } 毫秒把租期续到 { $lease } 毫秒
    }
lab-lock-gives-up = 放弃：{ $why }
lab-lock-lost = 锁已丢失：租期不再可靠，但 A 没有停下
lab-lock-not-subscribed = { $seconds } 秒内锁没有订阅到自己的频道
lab-lock-not-waited = B 没有拿到锁。
lab-lock-of = 这是请求 { $request } 的锁
lab-lock-redis = 脚本实际执行的命令，以及 { $expired } 的过期通知
lab-lock-reentered = 重入，深度 { $depth }
lab-lock-release-failed = 未能释放：{ $error }
lab-lock-released = 已释放
lab-lock-released-once = 释放一层，深度 { $depth }
lab-lock-renewals = { $count ->
        [0] 锁没有续期。
       *[other] 看门狗续期 { $count } 次。
    }
lab-lock-renewed = 看门狗续期
lab-lock-second = 在 A 持锁之后请求，最多等待 { $wait } 毫秒
lab-lock-title = 两个竞争者与一把可重入锁
lab-lock-tries = { $wait ->
        [0] 请求锁，不等待
       *[other] 请求锁，最多等 { $wait } 毫秒
    }
lab-lock-waited = B 等待了 { $waited } 毫秒。
lab-lock-works = 工作 { $hold } 毫秒
lab-mended-by = 改进方案：`{ $design }`。
lab-name = 实验
lab-no-design = 没有名为“{ $name }”的方案；可选方案：{ $names }
lab-no-program = 无法得知本程序的路径，因此不能启动实验的实例：{ $error }
lab-none-alone = none 表示不发生故障，不能与其他故障同时给出。请只给出 none，或只列出故障。
lab-not-applicable = { $design } 不适用于 { $database }：它没有行锁。
lab-not-caught = 本次负载未触发
lab-one-format = --json 与 --markdown 只能选一个
lab-one-screen = 实验界面不输出报告；请去掉 --json 和 --markdown
lab-piece = 第 { $piece } 件
lab-progress = { $database }，{ $design }，种子 { $seed }：{ $runs } 次运行已完成 { $done } 次
lab-promise-freed-after-death = 持有者宕机后锁会释放
lab-promise-no-loss = 不丢订单
lab-promise-no-overselling = 不超卖
lab-promise-one-order = 一人一单
lab-promise-own-lock = 只释放自己的锁
lab-promise-sells-out = 库存能售完
lab-property-acknowledgement = 取出的消息在确认前保留（已确认数）
lab-property-blocking-read = 可以阻塞读取（读到的内容）
lab-property-crash-safety = 消费者死亡时不丢订单（丢失数）
lab-property-persistence = 消息在重启后仍在（剩余数）
lab-property-replay = 消息可以重复读取（第二次读取）
lab-property-shared-entries = 多个消费者分担消息（各自读到的内容）
lab-property-unbounded-backlog = 积压没有自身上限（已接受数）
lab-question-hand-over = 订单落库
lab-question-locks = 分布式锁
lab-question-one-order = 一人一单
lab-question-overselling = 超卖
lab-queue-blocking = 阻塞队列
lab-queue-full = 队列已满
lab-queue-group = 流与消费者组
lab-queue-list = 列表
lab-queue-pubsub = 发布订阅
lab-queue-stream = 流
lab-queues-how = 每一格的测量方法
lab-queues-lost = { $orders } 单中丢失 { $lost } 单
lab-queues-no = 否
lab-queues-no-reader = 队列的读取者没有开始等待
lab-queues-restart = 停止并重新启动 Redis
lab-queues-second = 第二个客户端：{ $command }
lab-queues-title = 队列对比
lab-queues-yes = 是
lab-refused-before = 此前还有 { $count } 次加锁失败
lab-replica = 实验的主从切换失败：{ $reason }
lab-replica-late = 从节点没有及时收到数据
lab-request-timeout = { $seconds } 秒内未处理完
lab-schedule-after = 上次运行结束后 { $delay } 毫秒
lab-schedule-cron = cron 表达式
lab-schedule-delay = 固定延迟
lab-schedule-due = 应于 { $due }
lab-schedule-due-skipped = 应于 { $due }，跳过 { $skipped }
lab-schedule-every = 每 { $period } 毫秒
lab-schedule-job = { $about }：{ $schedule }，每次运行 { $takes } 毫秒
lab-schedule-not-cron = 这是时长，不是 cron 表达式；请写成例如“{ $example }”
lab-schedule-rate = 固定频率
lab-schedule-runs = 运行记录
lab-schedule-seconds = { $seconds } 秒
lab-schedule-slow = 耗时超过周期
lab-schedule-title = 几种调度方式并排对比
lab-schedule-took = 用时 { $took } 毫秒
lab-server-missing = 未安装该服务器，或缺少创建系统表的文件；请安装，或从 --on 中去掉
lab-source = 教程 { $text } 第 { $section } 节。
lab-step-incident = 故障：{ $what }
lab-step-killed = 被杀死（{ $signal }）
lab-step-lease-end = { $millis } 毫秒的租期到期（推算）
lab-step-lock = 加锁 { $lock }
lab-step-no-order = 不是订单的消息
lab-step-stall = 卡顿了 { $millis } 毫秒
lab-step-unlock = 释放锁 { $lock }
lab-texts =
    教程文章：
    - 000：Redis 优惠券秒杀（全局唯一 ID、超卖、分布式锁、消息队列）
    - 001：定时任务，以及保证只有一个节点执行的锁
    - 002：秒杀业务流程回顾，用脚本校验资格
    - 003：用 Redis 脚本扣减库存，建立消息队列并异步处理
    - 004：用异步下单和消息队列优化秒杀
lab-timeline = 违反的承诺：{ $promise }（种子 { $seed }）
lab-title = 教程中的各个方案，同样的负载
lab-took = 历时 { $millis } 毫秒
lab-tour-acknowledge = 确认之后，消息离开待确认列表：它的订单已经提交。
lab-tour-add = 向流追加一条消息。* 表示由 Redis 生成 ID：毫秒时间戳加序号。
lab-tour-add-more = ID 只增不减，流因此保持到达的顺序。
lab-tour-add-third = 第三个订单。
lab-tour-again = 消费者组把全部消息再投递一遍：至少一次，所以消费者必须幂等。
lab-tour-auto-claim = 一次调用就能找出闲置的待确认消息并转移过来；消费者应定期执行。
lab-tour-call = 用第一种方式调用，命令出错时脚本当场终止，最后一条写命令没有执行。
lab-tour-call-left = 没有回滚：出错之前的写命令已经生效。
lab-tour-claim = 闲置足够久（这里为 0）之后，把死亡消费者的待确认消息转给另一个消费者。
lab-tour-claimed = 消息现在属于 c1，投递次数增加了；次数不断增长，说明它可能是毒消息。
lab-tour-consumer = 可以先创建消费者；它第一次读取时也会自动创建。
lab-tour-delete = 从流中删除消息，但待确认列表里仍有它。
lab-tour-deleted = 自动转移时，这样的消息会从待确认列表移除，并列在回复的最后。
lab-tour-destroy = 删除消费者组及其待确认列表，流中的消息仍在。
lab-tour-destroyed = 此后该组的消费者会收到错误。
lab-tour-done = 在临时 Redis 服务器上执行了 { $count } 条命令；服务器已停止，数据已删除。
lab-tour-eval = 脚本作为整体执行：检查库存与扣减之间，不会执行其他命令。
lab-tour-evalsha = 按哈希值执行脚本。库存已经是 0，所以这次卖不出。
lab-tour-group = 消费者组记住已投递到哪里。0 表示从第一条消息开始，$ 表示只要之后的消息。
lab-tour-group-exists = 组只能创建一次；再次创建会报错，程序要能处理。
lab-tour-group-read = 用 > 读取组内还没有投递给任何消费者的消息。
lab-tour-group-shares = 另一个消费者拿到下一条消息：消费者分担工作。
lab-tour-info-consumers = 每个消费者有多少待确认消息，闲置了多久。
lab-tour-info-groups = 每个组最后投递的 ID、待确认消息数和积压量。
lab-tour-info-stream = 查看流的信息。
lab-tour-length = 统计消息数。读取不会删除消息。
lab-tour-load = 把脚本存入服务器，返回它的哈希值：脚本只需发送一次。
lab-tour-no-script = 服务器不认识这个哈希值时（重启、故障转移）会报错，客户端这时应发送完整脚本。
lab-tour-own-pending = 用 ID 代替 > 时，消费者读到的是自己的待确认消息：重启后首先要做的事。
lab-tour-pcall = 用第二种方式调用，错误作为返回值交给脚本：脚本继续执行，可以自行处理。
lab-tour-pcall-left = 最后一条写命令执行了。
lab-tour-pending = 统计已投递但未确认的消息。
lab-tour-pending-each = 逐条列出：消费者、闲置毫秒数、投递次数。
lab-tour-range = 按 ID 读取，从最小（-）到最大（+）。
lab-tour-read = 读取某个 ID 之后的消息；0 表示从流的开头。
lab-tour-read-after = 读取者从上次读到的 ID 继续，这个 ID 要自己记住。
lab-tour-read-new = $ 是调用那一刻流的末尾：两次调用之间到达的消息会被漏掉。
lab-tour-set-id = 把组的位置移回去：重新消费。
lab-tour-step-needs-terminal = { $flag } 要在终端上等待 Enter；请去掉它或 --json
lab-tour-stock = 脚本部分：先准备一件库存。
lab-tour-title = 流与脚本
lab-tour-trim = 只保留最新的消息，不管是否已确认。
lab-tour-trimmed = 还剩一条消息。
lab-unexpected = 意外：违反了它本应遵守的承诺（{ $promise }）。
lab-view-breaks = { $seeds ->
        [1] 违反：{ $promise }
       *[other] { $seeds } 个种子中有 { $count } 个违反：{ $promise }
    }
lab-view-breaks-in = { $text }（{ $incidents }）
lab-view-broken = { $promise } { $count }/{ $seeds }
lab-view-broken-promises = 违反 { $count } 条承诺
lab-view-calm = 无故障
lab-view-cancelling = 正在取消：实验室的服务器正在停止
lab-view-counts = 订单 { $orders }，超卖 { $oversold }，重复下单的用户 { $twice }，未售出 { $unsold }，丢失 { $lost }
lab-view-designs = { $count } 个方案
lab-view-done = 已评判 { $count } 个方案
lab-view-failed = { $count } 个请求，第一个的原因：{ $why }
lab-view-keeps = 遵守：{ $promises }
lab-view-kept = 全部遵守
lab-view-more = 另有 { $count } 行，请按 { KEY("open") } 查看
lab-view-no-result = 第一个结果会显示在这里。
lab-view-not-caught = 本次负载未触发：{ $promises }
lab-view-not-mended = { $design } 无需修正
lab-view-not-run = 在该数据库和负载下尚未运行
lab-view-order = 方案始终按教程的顺序排列
lab-view-part = 已运行 { $done }/{ $runs } 次
lab-view-promise-of = 第 { $number }/{ $count } 条承诺；{ KEY("lab-panel") } 下一条
lab-view-run = { $done }/{ $runs }  { $design }，种子 { $seed }
lab-view-running = 实验正在运行；按 { KEY("back") } 取消
lab-view-runs = 运行中
lab-view-servers = 临时服务器，不涉及真实秒杀
lab-view-so-far = { $runs } 次运行中前 { $done } 次未违反：{ $promises }
lab-view-speed = 每秒 { $per_second } 个请求，p50 { $p50 }，p99 { $p99 }；每个请求 { $sql } 条 SQL、{ $redis } 条 Redis 命令
lab-view-started = { $count } 个方案在 { $on } 上运行；按 { KEY("back") } 取消
lab-view-starting = 正在启动实验室的服务器
lab-view-throughput = 请求/秒
lab-view-unavailable = 该控制台无法启动实验；请运行 'seckill lab'
lab-view-work = { $on }：{ $buyers } 个买家，库存 { $stock }，{ $percent }% 重复，{ $instances } 个实例 { $concurrency } 并发，间隔 { $think } ms，{ $seeds } 个种子
lab-why-blocking-queue = 队列在接单进程的内存里。进程一死，其中的订单全部丢失，而用户已被告知抢购成功。
lab-why-compare-and-swap-loop = 只有库存仍等于读到的值，更新才成功，否则重新读取再试。结果正确，但每次成功都会让其他并发请求重来一遍。
lab-why-count-then-insert = 连点两次的两个请求都在对方插入之前查询订单数，查到的都是 0。查询不加锁，而要锁的那一行还不存在。
lab-why-counter-in-memory = 计数器在单个进程的内存里，初值是全部库存。每多一个实例，就把库存多卖一遍。
lab-why-engine = 一个脚本检查库存与买家、为一批买家扣减库存并把订单写入流，中间不插入其他命令；消费者在一个事务里写入一批，提交之后才确认。死亡消费者的消息会被接管，不是订单的消息成为死信。
lab-why-fencing-token = 每个持有者在查询订单之前先把该用户在数据库中的令牌调高，写入时令牌仍是自己的才能通过。无论锁是怎样丢的，丢了锁的持有者都会被数据库拒绝。
lab-why-guard-after-update = 条件在更新语句发出之后才判断，所以语句本身没有条件。凡是通过第一次检查的请求都会扣减库存。
lab-why-list-brpop = 消费者从列表弹出消息时，订单还没有写入。消费者若在这期间死亡，任何服务器和进程都不再持有这条消息。
lab-why-lock-per-interned-key = 同一进程内相等的字符串是同一个对象，所以同一用户的请求等的是同一把锁。有两个实例时就有两个这样的对象，连点两次的两个请求各持一把锁。
lab-why-lock-per-string = 每个请求锁住的都是自己刚创建的对象，没有别的请求会等这把锁。连点两次的两个请求都在对方插入之前查询了订单数。
lab-why-multilock = 所有独立的服务器都加锁成功才算持有锁，其中一台丢了键并不会释放锁。但进程被暂停时无法续期，恢复后仍会写入，而锁早已过期。
lab-why-mysql-row-lock = 锁住这一行的正是写入订单的事务，所以锁不会先于写入结束。持有者宕机时连接断开，服务器随即释放行锁。
lab-why-process-mutex = 所有用户都等同一把锁，而锁在单个进程的内存里，只能隔开本进程的请求。有两个实例时，连点两次的两个请求会同时各持自己的锁。
lab-why-pubsub = 消息只投递给当前的订阅者，Redis 不保存。消费者不在时发布的订单，以及死亡的消费者缓冲区里的订单，都会丢失。
lab-why-reentrant = 锁是“持有者到重入次数”的哈希，持有锁的方法可以调用另一个也要加锁的方法。但有效期是固定的：执行超时的持有者会在别人持有锁时写入订单。
lab-why-serial = 每个用户都要等完六个步骤，所有请求的写操作又在数据库里互相等待。不会丢单，因为提交之后才告知用户下单成功。
lab-why-setnx-blind-release = 持有者还在执行，锁就到期了，下一个请求拿到锁，两者都写入订单。随后前者把后者的锁删掉，因为删除命令不管锁是谁的。
lab-why-setnx-lua-release = 脚本把比较持有者和删除锁合成一步，不会误删别人的锁。但执行时间超过有效期的持有者仍会在没有锁的情况下写入。
lab-why-setnx-owner-check-then-delete = 读取持有者与删除锁是两条命令：锁若在两者之间到期，删掉的就是下一个持有者的锁。而且执行超时的持有者仍会在没有锁的情况下写入。
lab-why-setnx-without-expiry = 键没有过期时间，持有者宕机后锁永远不会释放，该用户再也下不了单。切换到没有这个键的从节点之后，持有者还在执行，锁却已空闲。
lab-why-stock-guard = 数据库在一条语句里判断库存并扣减，这样的语句逐条执行。最后一件只会被扣一次，之后的更新影响 0 行。
lab-why-stream-group-repaired = 消息在订单提交之前一直留在流中并处于待确认状态，重启后的消费者先处理自己的待确认消息。已提交而未确认的订单在 SQL 中查得到，不会写两次；不是订单的消息被单独存放。
lab-why-stream-group-tutorial = 消费者组从 `$` 开始，跳过了更早的消息；确认时写错了流，所以每条消息都一直待确认。重启后的消费者不再读取自己的待确认消息，而一旦出现异常，它就只读待确认消息，陷入死循环。
lab-why-stream-read-dollar = `$` 指调用那一刻流的末尾。消费者处理一条消息时到达的其他消息都在这个末尾之前，任何一次读取都不会返回它们。
lab-why-unguarded = 在查询与更新之间，其他请求读到同样的库存，也通过了同样的检查。它们都会扣减库存，包括已经不存在的那些。
lab-why-unique-index = 无论有多少实例，唯一索引都会拒绝同一用户的第二单。随后事务回滚，归还库存：每个重复请求都要数据库付出这一代价，Redis 锁可以省去。
lab-why-unlock-after-commit = 释放锁之前事务已经提交，下一个拿到锁的请求看得到这个订单。但锁在单个进程的内存里，两个实例之间并不互斥。
lab-why-unlock-before-commit = 同步块结束时锁就释放了，而事务要等方法返回之后才提交。在这之间，同一用户的另一个请求拿到锁，却看不到尚未提交的订单。
lab-why-version-column = 只有版本号仍等于读到的值，更新才成功。读到同一版本的请求中只有一个成功，其余的在还有库存时被告知售罄。
lab-why-version-equal-stock = 只有库存仍等于读到的值，更新才成功。一百个请求读到同样的库存，只有一个成功，其余的在还有库存时被告知售罄。
lab-why-watchdog = 进程运行期间看门狗不断续期，所以慢的持有者不会丢锁，宕机的持有者会自动失去锁。但进程被暂停时无法续期，主从切换丢掉的锁也找不回来。
lab-work = { $buyers } 名买家，库存 { $stock }，{ $percent } % 的用户重复发送请求，{ $instances } 个实例共 { $concurrency } 个并发请求，平均停顿 { $think } 毫秒，{ $seeds } 个种子。计数为各种子的中位数，耗时统计全部请求。
lab-work-connections = { $instances } 个实例各需一个连接，而并发数是 { $connections }；请提高 --concurrency 或降低 --instances
lab-work-range = { $name } 必须在 { $from } 到 { $to } 之间，而不是 { $value }
lab-work-repeat = repeat 必须在 0 到 1 之间，而不是 { $value }
lab-work-too-long = 此负载在锁下可能需要 { $seconds } 秒，而一次运行最多 { $most } 秒；请降低 --buyers 或 --think

## ledger

ledger-all-sales = 全部秒杀：{ $finding }
ledger-audit-is-running-press-again = 正在对账，完成后再按 { KEY("repair") }
ledger-audit-was-stopped-after-s = 对账超过 { $most } 秒，已停止：请在终端运行 'seckill audit'。
ledger-audited-ago = { $age }前核对 { $sales } 场
ledger-auditing-the-sales = 正在对账。
ledger-balanced = 通过
ledger-by-hand = 人工处理
ledger-change = 变更
ledger-changed-in-sql-not-confirmed = SQL 中已更改，Redis 尚未确认
ledger-compare-its-orders = 核对其订单（{ KEY("orders") }，/{ $query }）与 tb_seckill_voucher 中的行，再更正 SQL
ledger-cure-adopt = 将该场写入 SQL，其订单入队
ledger-cure-enqueue = 将丢失的订单重新入队
ledger-cure-give-back = 将 SQL 中已关闭订单的库存退还 Redis
ledger-cure-reconcile = 按 SQL、消息流和死信补齐
ledger-cure-remove = 从 Redis 删除已归档的该场
ledger-cure-update = 将 Redis 中该场的字段恢复为 SQL 中的值
ledger-cure-sql-stock = 按有效订单重算 SQL 库存
ledger-cure-replace = 将 Redis 中那一场的键改名保留，载入 SQL 中的该场；两者的消息都计入该场订单
ledger-differences = 差异
ledger-differences-of-sale = { $count } 处差异
ledger-finding-ahead = SQL 缺少这场秒杀最近的 { $changes } 次变更
ledger-finding-behind = Redis 缺少这场秒杀最近的 { $changes } 次变更
ledger-finding-fields = Redis 中该场的字段与 SQL 不符：{ $fields }；运行中的节点会将其恢复
ledger-finding-damaged = 该场在 Redis 中的键“{ $key }”丢失、被替换或被回退，补齐前暂停准入
ledger-finding-doubled = { $buyers } 位买家的有效订单超过该场限购
ledger-finding-initial = 总库存不一致：Redis 为 { $redis }，SQL 为 { $sql }
ledger-finding-kept = { $orders } 笔已关闭订单仍占用 Redis 库存，不会自动退还
ledger-finding-lost = { $orders } 笔已准入订单不在 SQL、消息流和死信中
ledger-finding-negative = { $side } 库存低于 0（{ $stock }），已超卖
ledger-finding-of-sale = #{ $sale }：{ $what }
ledger-finding-of-shard = #{ $sale }.{ $shard }：{ $what }
ledger-finding-other-sale = Redis 中同号的是另一场秒杀，创建时间不同
ledger-finding-redis-stock = Redis：总库存 { $initial } 不等于剩余 { $stock } + 买家 { $admitted }
ledger-finding-repeated = { $ids } 个订单号被两位买家持有
ledger-finding-restoring = 该场数据正在补齐，其间暂停准入
ledger-finding-sql-stock = SQL：库存 { $stock } 不等于总库存 { $initial } - 有效订单 { $live }
ledger-finding-still-held = 该场已归档，但仍在 Redis 中
ledger-finding-stranded = { $orders } 笔已准入订单成为死信且不在 SQL 中，原因见死信
ledger-finding-unreadable = 该场存储的数据无法读取：{ $why }；其数据未知
ledger-finding-unknown = SQL 中 { $orders } 笔订单在 Redis 没有买家，库存可能被再次售出
ledger-former-keys = 键 { $key } 使用旧版本给分片 { $shard } 的名称，而数据库已丢失该秒杀：'seckill audit --repair' 会重命名这些键并恢复该秒杀
ledger-in-a-larger-window = 另有 { $count } 行，请放大窗口
ledger-in-flight = 在途 { $orders }
ledger-in-redis = Redis 中
ledger-in-sql = SQL 中
ledger-incomplete = 对账不完整：已读取的部分没有差异，其余未知。
ledger-left-of = 剩余 { $stock } + 订单 { $orders } = { $sum }，总库存 { $initial }
ledger-more-sales = { $named } 等，另有 { $more } 场
ledger-no-automatic-repair-for-these = 这些差异不能自动修复，请看详情
ledger-no-differences-so = 没有差异，无需修复
ledger-no-sales-yet-nothing = 还没有秒杀，无需对账。
ledger-none-every-order-verified = 无，逐笔订单号核对一致
ledger-not-delivered-pending-dead-closed = 未投递 { $undelivered }，待确认 { $pending }，死信 { $dead }，已关闭 { $closed }
ledger-outdated = Redis 与数据库均恢复应答前，结果未知。{ $found ->
        [0] { $age }前的最近一次对账通过。
       *[other] { $age }前的最近一次对账有 { $found } 处差异。
    }
ledger-partition = 分区 { $number }：{ $fault }
ledger-press-for-dead-letters-then = 按 { KEY("letters") } 打开死信，再按 { KEY("replay-letters") } 重放，或按 { KEY("compensate") } 退还库存
ledger-repair-of-sales = {"  "}{ $sales } 场：{ $cure }
ledger-sale-incomplete = 不完整
ledger-sale-is-in-redis-but = Redis 中有这场秒杀，SQL 中没有
ledger-sale-is-not-in-redis = Redis 中没有这场秒杀，运行中的节点会在一秒内载入
ledger-shards-passed = { $shards } 个中 { $quiet } 个通过
ledger-this-sale-has-no-automatic = 这场秒杀没有可自动修复的差异
ledger-unreadable-keys = 键 { $key } 属于数据库中没有的秒杀，且有字段无法读取；请从备份恢复该秒杀在 SQL 中的行，或更正该字段
ledger-verdict =
    { $found ->
        [0] { $flying ->
            [0] 对账通过，所有订单均已核对。
           *[other] 没有差异，{ $flying } 笔订单正在落库。
        }
       *[other] { $off } 场有 { $found } 处差异{ $repairable ->
            [0] ，均不能自动修复。按 { KEY("open") } 查看处理办法。
           *[other] 。按 { KEY("open") } 查看原因，按 { KEY("repair") } 修复其中 { $repairable } 场。
        }
    }
ledger-view-audits-at-most-orders = 订单超过 { $most } 笔，画面不做对账：请在终端运行 'seckill audit'。

## letters

letters-advice = { $verdict ->
    [awaited] 买家在等，尚无订单：按 { KEY("replay-letters") } 重放
    [came_back] 每次重放都失败：请按原因修复后用 'seckill dead replay --force' 重放，或按 { KEY("compensate") } 取消订单并退还库存
    [written] 订单已在 SQL 中：按 { KEY("discard") } 删除
    [not_awaited] 买家没有订单或已有其他订单：按 { KEY("discard") } 删除
    [no_sale] 秒杀不存在，不会有买家在等：按 { KEY("discard") } 删除
    [sale_lost] 买家在等，但数据库丢失了这场秒杀：先用 'seckill audit --repair' 恢复
    [not_loaded] Redis 中没有这场秒杀，无法判断是否有买家在等：用 'seckill audit --repair' 载入，或按 { KEY("compensate") } 取消订单
    [id_taken] 买家在等，但订单号属于另一位买家：需人工处理
    [holds_another] 买家已有另一有效订单：按 { KEY("compensate") } 取消此单并退还库存
   *[malformed] 无法生成订单：按 { KEY("discard") } 删除
}
letters-counting-the-dead-letters = 正在统计死信
letters-deliveries = { $at }，投递 { $deliveries } 次：{ $reason }
letters-effect = { $effect ->
    [replayed] 重放
    [removed] 删除
    [cancelled] 取消订单、退还库存、删除
    [exhausted] 保留（'dead replay --force'）
   *[stays] 保留
}
letters-fields = 字段
letters-given-up = 死信记录
letters-given-up-by = { $at }，{ $consumer } 投递 { $deliveries } 次：{ $reason }
letters-letter = 死信
letters-marked =
    已标记 { $count } 条{ $filtered ->
        [0] {""}
       *[other] ，其中 { $filtered } 条被筛选隐藏
    }{ $elsewhere ->
        [0] {""}
       *[other] ，{ $elsewhere } 条在其他页
    }
letters-marked-no-longer-present = { $gone }  条已标记的死信已不在
letters-more-fields = 另有 { $count } 个字段
letters-no-dead-letters-entries = 没有死信。无法处理的消息会连同原因列在这里。
letters-none = 无：{ $fault }
letters-nothing-to-do = { $command ->
    [replay-letters] { $count } 条死信都不能重放，按 { KEY("open") } 查看原因
    [discard] { $count } 条死信都可能有买家在等，按 { KEY("replay-letters") } 重放，按 { KEY("compensate") } 取消订单
   *[compensate] { $count } 条死信都没有买家在等，按 { KEY("discard") } 删除
}
letters-one = 1 条死信 { $letter }
letters-on-this-page = 本页：
letters-scope-all = { $shown ->
    [none] 全部 { $count } 条死信
   *[other] 全部 { $count } 条，不只是筛选出的 { $shown } 条
}
letters-the-dead-letters-are-counted = 死信已统计
letters-there-are-no-dead-letters = 没有死信
letters-these-letters-are-no-longer = 这些死信都已不存在
letters-user-sale = { $order }，用户 { $user }，秒杀 { $sale }
letters-verdict = { $verdict ->
    [awaited] 买家等待
    [came_back] 重放失败
    [written] 已落库
    [not_awaited] 无买家
    [no_sale] 秒杀不存在
    [sale_lost] 秒杀丢失
    [not_loaded] 未载入
    [id_taken] 订单号被占
    [holds_another] 另有订单
    [malformed] 无订单
   *[other] { $verdict }
}
letters-verdict-line = { $count }  { $verdict }：{ $effect }
letters-was-entry = { $letter }，原消息 { $entry }
letters-why = { $verdict ->
    [awaited] 买家在等，尚无订单：重放
    [came_back] 已达重放次数上限且每次都失败：按原因修复后用 --force 重放，或用 --compensate 丢弃
    [holds_another] 买家已有另一有效订单：用 --compensate 丢弃，取消此单并退还库存
    [id_taken] 买家在等，但订单号属于另一位买家：需人工处理
    [no_sale] 秒杀不存在，不会有买家在等：丢弃
    [sale_lost] 买家在等，但 SQL 丢失了 Redis 中仍有的这场秒杀：先用 'seckill audit --repair' 恢复
    [not_awaited] 买家没有订单或已有其他订单：丢弃
    [not_loaded] Redis 中没有这场秒杀，无法判断是否有买家在等：先用 'seckill audit --repair' 载入，或用 --compensate 丢弃
    [written] 订单已在 SQL 中：丢弃
   *[other] 不含有效订单：丢弃
}

## list

list-clauses = ，
list-items = 、
list-parts = ；

## lock

lock-busy = 锁“{ $name }”已被其他持有者占用，请等待，可用 'seckill locks list' 查看
lock-changed = 锁“{ $name }”已换了持有者，因此未释放；可用 'seckill locks list' 查看
lock-lost = 锁“{ $name }”已丢失，此后凭它的写入会被栅栏令牌拒绝
lock-member = 锁“{ $name }”须在所有服务器上加锁，但 { $address } 加锁失败：{ $why }
lock-name-control = 锁名不能含控制字符：“{ $name }”
lock-name-length = 锁名须为 1 到 { $most } 个字符，现为 { $length } 个
lock-no-server = 锁至少需要一台服务器
lock-not-held = 锁“{ $name }”无人持有，可用 'seckill locks list' 查看当前的锁
lock-server-twice = 联锁中有一台服务器重复
lock-too-slow = Redis 在 { $took } 秒后才应答，租期 { $lease } 秒已过，请延长租期

## loss

loss-and-more = { $named } 等，另有 { $more } 个
loss-archived = 移除 { $count } 场已归档的秒杀
loss-buyers = 补回 { $count } 位买家
loss-keys = 丢失、被替换或被回退：{ $keys }；
loss-letters = ；有未关联订单的死信丢失，数量未知
loss-nothing = 未遗漏买家
loss-other-sale = ；Redis 与 SQL 中同号的是两场不同的秒杀，该场保持关闭
loss-oversold = ；买家多于库存，该场保持关闭
loss-paused = ；SQL 已回退，无法得知该场能否继续售卖，已将其暂停；请检查后再恢复
loss-promised = { $count } 笔订单重新入队
loss-refused = { $count } 笔订单无法兑现
loss-removed = 移除 { $count } 位订单已关闭的买家
loss-unknown = 可能遗漏 { $count } 位买家（由库存推知）
loss-unwitnessed = 没有节点在线时 Redis 重启或主从切换过：{ $seconds ->
    [0] 可能丢失部分准入，数量未知
   *[other] 可能丢失最多 { $seconds } 秒的准入
}；{ $newest ->
    [none] Redis 中没有准入记录
   *[other] Redis 中最新的准入时间为 { $newest }
}
loss-was-a = { $key }（原为 { $held }）

## metrics

metrics-admission = 按结果统计的抢购请求数
metrics-alarms = 未解除的告警数
metrics-connections = 已打开的连接数
metrics-database-up = 数据库是否应答
metrics-dead = 死信数
metrics-duration = 从收到请求头到发出应答头的时间
metrics-in-flight = 处理中的请求数
metrics-lag = 尚未投递的消息数
metrics-limited = 超出限流的请求数
metrics-nodes = 近期有心跳的节点数
metrics-orders = 数据库中的有效订单数
metrics-pending = 已投递、待确认的消息数
metrics-redis-up = Redis 是否应答
metrics-requests = 已应答的请求数
metrics-sale-admitted = Redis 中持有订单的买家数
metrics-sale-initial = 秒杀的总库存
metrics-sale-orders = 数据库中该秒杀的有效订单数
metrics-sale-stock = Redis 中的剩余库存

## orders

orders-admitted = 准入时间
orders-and-acknowledged-time-unknown-redis = 并已确认；时间未知，Redis 不保留
orders-and-more = { $count } 笔以上
orders-atomically-as-entry = 原子写入，消息 { $entry }
orders-bought-by = { $place ->
    [0] 用户 { $user }，优惠券 { $sale }
    [1] 用户 { $user }，秒杀 { $sale }
   *[other] 用户 { $user }，第 { $place } 个名额，秒杀 { $sale }
}
orders-buyer = 买家
orders-clocks-differ-by-at-least = 时钟至少相差 { $size }
orders-closed = 关闭
orders-dead-letter-press-to-open = 死信：{ $reason }；按 { KEY("letters") } 查看
orders-delivered = 已投递
orders-held = { $at }，{ $held ->
    [true] Redis 中买家持有该订单
   *[false] Redis 中买家已不再持有该订单
}
orders-id-time = ID 解析
orders-any-id = 此 ID 的订单
orders-id-user-voucher-paid = id、user=1001、voucher=7、paid、from=14:30、to=-5m；取反：!user=7、!voucher=7、!paid；按 { KEY("press") } 查询
orders-in-all = 共 { $count } 笔
orders-in-sql = 写入 SQL
orders-in-stream = 入队
orders-in-the-stream-not-delivered = 在消息流中，尚未投递
orders-issued-number-of-utc = 生成于 { $issued }，{ $day }（UTC）第 { $sequence } 号
orders-location = 位置
orders-lost-assigned-to-its-buyer = 丢失：Redis 中买家持有该订单，其他位置都没有；用 'seckill audit --repair' 修复
orders-ms = { $size } 毫秒
orders-never = 未支付
orders-newest-first = 最新在前
orders-no-entry-near-that-second = { $is_partial ->
    [true] 该秒附近的消息过多，已检查的部分中没有
   *[false] 该秒附近没有消息；可能已裁剪
}
orders-no-order-in-sql-matches = SQL 中没有符合条件的订单。按 { KEY("back") } 显示全部。
orders-no-orders-in-sql-yet = SQL 中还没有订单。新订单先进入消息流。
orders-not-delivered-yet = 尚未投递
orders-not-yet = 尚未
orders-order-is-only-unpaid-orders = 订单 { $id } { $status }；只能支付未支付的订单
orders-paid = 支付
orders-partition = ，分区 { $number }
orders-pending-delivered-and-not = 待确认：已投递未确认；按 { KEY("pending") } 查看
orders-place = 第几单
orders-s = { $seconds }.{ $tenths } 秒
orders-searching = 查找中
orders-since = 更新于
orders-sql-did-not-reply-within = 数据库两秒内没有应答。指定秒杀、用户或时间可缩小查询范围。
orders-sql-takes-long = 数据库较慢
orders-status = 状态
orders-status-name = { $status ->
    [unpaid] 未支付
    [paid] 已支付
    [used] 已使用
    [cancelled] 已取消
    [closed] 已关闭
   *[other] { $status }
}
orders-the-last = 最后 { $count } 笔
orders-time-unknown = 时间未知
orders-to-try = { $last }，给 { $consumer }，第 { $times } 次
orders-unknown-not-in-sql-stream = 未知：SQL、消息流、死信和买家记录中都没有
orders-unknown-server-is-unreachable-try = 未知：服务器不可达；请稍后再试
orders-up-to-press-for-newest = 截至 { $at }；按 { KEY("first") } 查看最新
orders-value = { $first }，{ $second }

## os

os-error = { $kind ->
    [AddrInUse] 地址已被占用
    [AddrNotAvailable] 地址不可用
    [AlreadyExists] 文件已存在
    [BrokenPipe] 对端已断开
    [ResourceBusy] 设备或资源被占用
    [ConnectionAborted] 连接已中止
    [ConnectionRefused] 连接被拒绝
    [ConnectionReset] 连接被重置
    [DirectoryNotEmpty] 目录不为空
    [StorageFull] 磁盘已满
    [FileTooLarge] 文件过大
    [HostUnreachable] 主机不可达
    [InvalidInput] 参数无效
    [InvalidFilename] 文件名过长或无效
    [IsADirectory] 是目录
    [NetworkDown] 网络已断开
    [NetworkUnreachable] 网络不可达
    [NotADirectory] 不是目录
    [NotConnected] 尚未连接
    [NotFound] 文件或目录不存在
    [OutOfMemory] 内存不足
    [PermissionDenied] 没有权限
    [QuotaExceeded] 超出磁盘配额
    [ReadOnlyFilesystem] 文件系统只读
    [TimedOut] 超时
   *[other] { $text }
}

## outcome

outcome-admitted = 已准入，订单号 { $order }
outcome-after-ms = { $outcome }，耗时 { $took } 毫秒：{ $result }
outcome-busy = 节点繁忙：预计排队时间过长，请重试
outcome-done = 完成
outcome-duplicate = 不能重复下单，已有订单 { $order }
outcome-ended = 秒杀已结束
outcome-failed = 失败：{ $error }
outcome-not-loaded = Redis 中没有这场秒杀
outcome-not-ready = 消息流或消费组不存在
outcome-not-started = 秒杀尚未开始，开始时间 { $begins }
outcome-paused = 秒杀已暂停
outcome-ran = { $outcome }，耗时 { $took } 毫秒
outcome-sold-out = 秒杀已售罄
outcome-started = 已开始

## overview

overview-consumers = 消费者
overview-latency = 延迟（毫秒）
overview-left = 剩余
overview-locks = 锁
overview-none-from-here = 本控制台无
overview-orphans = { $figure } 把无主锁
overview-recent-events = 最近动态
overview-refused = 未抢到
overview-requests = { $count } 次请求
overview-rushes = { $count } 场压测
overview-stock = 库存
overview-waiting = { $count } 个等待

## partitions

partitions-changed = 分区数刚被其他进程更改，请重新启动
partitions-entries = 有 { $entries } 条消息在途，请以 { $partitions } 个分区运行节点（seckill work），直到消费完
partitions-foreign-key = Redis 的键“{ $key }”存有 { $holds }，不是本程序写入的
partitions-future-id = 消息流的最后 ID { $id } 晚于当前时间
partitions-group-beyond = 消费组位于 { $delivered }，超出消息流的最后 ID { $last }，读不到消息
partitions-letters = 有 { $letters } 条死信待人工处理
partitions-lost = 消息流“{ $key }”丢失了消息
partitions-moved-back = { $fault }；已回退到 { $from }
partitions-node = 节点 { $node } 在线，请先停止所有节点
partitions-not-now = 分区数为 { $from }，现在不能改为 { $to }：{ $why }
partitions-other = 分区数现为 { $stored }，本节点仍按 { $known } 运行，请重新启动
partitions-renamed = { $fault }；已改名为“{ $aside }”并重建
partitions-renewed = { $fault }；已换用新的消息流，其中 { $kept } 条待写入，{ $dead } 条成为死信；旧消息流“{ $aside }”保留一天
partitions-stored = tb_setting 中的分区数“{ $text }”无效，请设为 1 到 { $most }
partitions-unknown = Redis 无法给出未消费的消息数，请先让节点消费完；若无效，请重启 Redis

## pending

pending-why = { $verdict ->
    [body_gone] 消息已被裁剪或删除；Redis 的买家名单中仍有该订单
    [malformed] 字段无法构成订单
    [not_promised] Redis 中没有以此订单号准入的买家
    [refused] SQL 中的数据不允许写入该订单
    [stuck] SQL 中没有订单，且持有者已失联或空闲过久
    [too_often] 投递次数过多仍无订单，可能导致读取它的节点崩溃：再单独尝试一次，失败则转入死信
    [written] 订单已写入 SQL，仅缺确认
    [sale_lost] 买家在等，但 SQL 丢失了 Redis 中仍有的这场秒杀：用 'seckill audit --repair' 恢复
   *[other] 刚投递给在线节点，可能正在写入
}

## plan

plan-edited = 该计划制定后被改动，未执行，请重新制定
plan-foreign = 该计划属于另一套部署，请使用制定计划时的 Redis 和数据库
plan-io = 计划无法保存或读取（{ $error }），请清理临时目录后重新制定
plan-not-a-plan = 这不是恢复计划，请用 'seckill pending plan --out FILE' 生成
plan-truncated = 计划不完整，缺少结尾，请重新制定
plan-version = 计划的格式为 { $version }，当前程序只支持格式 1，请重新制定

## presenter

presenter-buyers = 买家
presenter-buyers-s = 买家/秒
presenter-left = 剩余 { $share }
presenter-no-sales-yet-press = 还没有秒杀，按 { KEY("arm") } 安排一场。
presenter-opens = { $time } 开始
presenter-oversold = 超卖
presenter-pieces = 件数
presenter-pieces-left-of = 剩余件数，共 { $initial }
presenter-pieces-left-unknown = 剩余件数：未知
presenter-recovered = 对账通过：滞留的 { $count } 笔订单均有着落
presenter-sold-of =
    { $seconds ->
        [none] 已售件数，共 { $initial }
       *[other] 已售件数，共 { $initial }，用时 { $seconds } 秒
    }
presenter-stranded = 笔订单滞留
presenter-there-is-no-other-sale = { $count ->
    [1] 没有其他秒杀可演示
   *[other] { $is_forward ->
        [true] 已是最后一场秒杀
       *[false] 已是第一场秒杀
    }
}
presenter-until-the-sale-opens = 距开抢
presenter-value = { $count ->
    [0] {""}
   *[other] {"  "}另 { $count } 条
}
presenter-works-in-views-press = { $key } 用于普通视图，按 { KEY("present") } 退出演示
presenter-written = 已落库

## recovery

recovery-action = { $action ->
    [acknowledge] 确认
    [process] 接管并落库
    [leave] 保留
    [rebuild] 按买家名单重建
    [dead_letter] 转为死信
   *[other] { $action }
}
recovery-age = 已等待 { $sign } { $border }
recovery-delivered-2-4-times = 投递 2–4 次
recovery-delivered-5-times = 投递 5 次以上
recovery-delivered-once = 投递 1 次
recovery-live-nodes-claim = 在线节点将在 { $left }后自动接管。
recovery-of = { $action } { $done } / { $planned }
recovery-of-the-oldest = 仅统计最早的 { $count } 条
recovery-plan-left = { $left ->
    [0] 计划中的消息均已被接管或处理，无需再执行。
   *[other] 计划中仅剩 { $left } / { $planned } 条待执行，其余已被接管或处理。
}
recovery-value = { $text }：{ $action }
recovery-verdict = { $verdict ->
    [written] 已在 SQL 中
    [stuck] 卡住，未落库
    [in_hand] 在线节点处理中
    [body_gone] 内容丢失
    [malformed] 无效消息
    [too_often] 投递次数过多
    [refused] 与 SQL 现有数据冲突
    [not_promised] 没有对应的买家
    [sale_lost] SQL 丢失了秒杀
   *[other] { $verdict }
}
recovery-verdict-word = { $verdict ->
    [written] 已落库
    [stuck] 卡住
    [in_hand] 处理中
    [body_gone] 内容丢失
    [malformed] 无订单
    [too_often] 投递过多
    [refused] 冲突
    [not_promised] 无买家
    [sale_lost] 秒杀丢失
   *[other] { $verdict }
}

## redis

redis-certificate = { $address } 的 Redis 证书不被接受（{ $reason }）；若由自建 CA 签发，请用 --redis-ca FILE 指定该 CA 的证书
redis-client-certificate = { $address } 的 Redis 要求受信任的客户端证书（{ $reason }）；请用 --redis-cert FILE 和 --redis-key FILE 指定
redis-cluster-down = { $address } 对槽 { $slot } 的应答为 { $reply }
redis-cluster-is-down = { $reason }；请启动缺少的服务器，或在其从节点上执行 'CLUSTER FAILOVER TAKEOVER'；若该槽从未分配，请用 'CLUSTER ADDSLOTS' 分配
redis-cross-slot = 同一管道中的键分属不同的槽，请报告此问题
redis-data-dir-closing = 另一个 seckill 正在关闭 { $path }，已有 { $seconds } 秒，请等待或结束它
redis-data-dir-crowded = 已有 { $nodes } 个进程在使用 { $path }，请结束一些
redis-data-dir-denied = 当前用户不能写入 { $path }，请更改其所有者，或另指定 --data-dir
redis-data-dir-full = { $path } 所在磁盘已满，请腾出空间，或另指定 --data-dir
redis-data-dir-gone = { $path } 在使用中被删除：其中的数据已丢失，此后不再受理请求；请停止所有 seckill 进程，恢复备份后重新启动
redis-data-dir-no-home = 没有可存放数据的主目录，请指定 --data-dir
redis-data-dir-not-a-directory = { $path } 不是目录，请另指定 --data-dir
redis-data-dir-read-only = { $path } 位于只读的文件系统，请另指定 --data-dir
redis-data-dir-shared = { $path } 属于他人或对他人开放，请删除它，或设置 TMPDIR
redis-data-dir-unusable = { $path } 不可用（{ $reason }），请另指定 --data-dir
redis-hosts-databases = 集群不支持选择数据库
redis-hosts-host = 主机、端口或数据库有误
redis-hosts-missing = 缺少一个主机
redis-hosts-none = 没有主机
redis-hosts-only = 只能填主机
redis-hosts-parameters = 问号之后只能有 sentinel_user 和 sentinel_pass
redis-hosts-password = 密码中的 /、?、#、@ 须写成 %2F、%3F、%23、%40
redis-hosts-service = 主机之后应为哨兵的服务名
redis-hung-up = { $reason }；{ $tls ->
    [tls] 不使用 TLS 的服务器应写 redis:// 地址
   *[plain] 连接数已满，或该服务器使用 TLS，应写 rediss:// 地址
}
redis-key-moved = 键正在或已经从 { $address } 移走（{ $reply }），请重试
redis-login = { $address } 的 Redis 拒绝登录（{ $reason }），{ $code ->
    [NOAUTH] 请在地址中写明用户和密码：redis://USER:PASSWORD@HOST 或 unix:///PATH?user=USER&pass=PASSWORD
   *[other] 请检查地址中的用户和密码；没有设置用户的服务器不需要
}
redis-lost-server = { $count } 个分区（{ $numbers }）的状态未知：{ $error }
redis-no-group = 消费组不存在，运行中的节点会重建
redis-no-handshake = { $seconds } 秒内未回应 TLS 握手：服务器卡死，或不使用 TLS，应写 redis:// 地址
redis-no-info = { $reason }；每个连接都要先执行 INFO：请授予该权限，或从 Redis 配置中删去对它的 rename-command
redis-no-master = 哨兵中没有“{ $service }”的在线主节点
redis-no-parameters-are-allowed-after = 问号之后不能有内容
redis-none-is-on-path = PATH 中没有
redis-none-of-its-servers-answers = 其服务器均不可用，{ $address }：{ $reason }
redis-not-master = 它已不是主节点
redis-not-reported = 服务器不提供 { $name }
redis-one-of-cluster = { $address } 是集群中的一台服务器（{ $reply }），其地址以 redis+cluster:// 或 rediss+cluster:// 开头
redis-redis-at-does-not-answer = 无法连接 { $address } 的 Redis（{ $reason }），请启动它或检查地址
redis-redis-or-valkey-or-later = 需要 7.0 或更高版本的 Redis 或 Valkey 服务器（{ $found }）；请安装：{ $install }，或指定 --redis URL
redis-refused = Redis 拒绝了该命令：{ $reason }{ $code ->
    [NOPERM] ；'seckill doctor' 会列出缺少的权限
    [ERR] ；'seckill doctor' 会列出缺少的命令
   *[other] {""}
}
redis-remedy = { $code ->
    [BUSY] 有脚本占住了它，请用 SCRIPT KILL 或 FUNCTION KILL 终止
    [MISCONF] 请腾出其磁盘空间并查看其日志
    [OOM] 请调高 maxmemory 或清理其他数据
    [READONLY] 它是从节点，请改用主节点的地址
    [NOREPLICAS] 请恢复其从节点或调低 min-replicas-to-write
   *[other] 请先排除该问题
}
redis-reply = Redis 的应答不符合预期；请检查该键是否被其他程序写过，以及该服务器是否为 Redis
redis-reply-to = Redis 对 { $command } 的应答不符合预期；请检查该键是否被其他程序写过，以及该服务器是否为 Redis
redis-sentinel-login = { $reason }；若哨兵需要单独登录，请加上 ?sentinel_user=USER&sentinel_pass=PASSWORD
redis-sentinels-timed-out = 哨兵没有及时应答
redis-server-damaged = Redis 服务器的 AOF 文件已损坏；请备份 { $dir }，再运行：redis-check-aof --fix { $manifest }
redis-server-detached = 本进程与 Redis 服务器的关联已解除，请重新启动
redis-server-died = Redis 服务器启动后立即退出：{ $messages }；详见 { $log }
redis-server-died-silent = Redis 服务器启动后立即退出，没有留下信息；详见 { $log }
redis-server-ending = 程序正在退出，不再管理 Redis 服务器
redis-server-foreign = { $socket } 处的服务器使用另一个目录 { $dir }；请停止它，或另指定 --data-dir
redis-server-found-other = { $path } 不是服务器
redis-server-found-version = { $path } 为 { $version }
redis-server-full = { $dir } 所在磁盘已满，Redis 服务器无法启动，请腾出空间
redis-server-loading = { $seconds } 秒后 Redis 服务器仍在载入 AOF 文件，请稍后再试
redis-server-silent = 有 Redis 服务器占用 { $lock }，但在 { $socket } 没有应答；请查看 { $log }，并停止它
redis-server-spawn = 无法启动 { $path }（{ $reason }），请重新安装，或指定 --redis URL
redis-server-stuck = { $socket } 的 Redis 服务器没有退出，请用 redis-cli -s { $socket } shutdown 停止
redis-server-unwritten = Redis 服务器仍在运行：它无法把最近的更改写入 { $dir }；请腾出磁盘空间，再启动并退出一次 seckill
redis-silent = { $address } 的 Redis 在 { $seconds } 秒内没有应答，请检查监听该地址的是否为其他程序，或 Redis 是否卡死
redis-temp-dir = 无法在 { $path } 新建临时目录（{ $reason }）；请把 TMPDIR 设为当前用户可写的目录
redis-timed-out = 没有及时应答
redis-too-old = { $address } 的 Redis 为 { $version }，需要 7.0 或更高版本，请升级
redis-unknown-directory = 未知目录
redis-unserved = 集群 { $cluster } 没有服务器负责槽 { $slot }
redis-unwilling = Redis 目前不接受写入（{ $reason }），{ $remedy }，之后运行中的节点自动恢复
redis-url-ca-empty = --redis-ca { $path } 中没有 PEM 证书，请指定签发服务器证书的 CA 的 PEM 证书文件
redis-url-cert-alone = --redis-cert 和 --redis-key 须同时指定，或都不指定
redis-url-cert-empty = --redis-cert { $path } 中没有 PEM 证书，请指定客户端的 PEM 证书文件，其后可附中间 CA 的证书
redis-url-cert-key = 证书 { $path } 与密钥 { $key } 不能一起使用（{ $why }），请用 --redis-key 指定该证书的密钥
redis-url-cluster = 集群地址无法识别：{ $fault }；形如 { $form }
redis-url-key-empty = --redis-key { $path } 中没有 PEM 密钥，请指定该证书的 PEM 私钥文件（不加密码）
redis-url-database = Redis 地址中指定的数据库编号在该服务器上不存在（{ $reason }）；请改用其他编号，或省略
redis-url-no-cluster = { $address } 的 Redis 是单台服务器而非集群，其地址以 redis:// 或 rediss:// 开头
redis-url-not-a-sentinel = { $address } 的 Redis 不是哨兵；请写哨兵的地址，或使用 redis:// 或 rediss:// 地址
redis-url-other-scheme = Redis 地址须以 redis://、rediss://、unix://、redis+sentinel:// 或 redis+cluster:// 开头，而不是“{ $scheme }”；例如 redis://127.0.0.1:6379
redis-url-scheme = Redis 地址须以 redis://、rediss://、unix://、redis+sentinel:// 或 redis+cluster:// 开头；例如 redis://127.0.0.1:6379
redis-url-sentinels = 哨兵地址无法识别：{ $fault }；形如 { $form }
redis-url-tls-file = 无法读取 --redis-ca、--redis-cert 或 --redis-key 的文件 { $path }（{ $reason }），请指定 PEM 文件
redis-url-tls-unused = --redis-ca、--redis-cert 和 --redis-key 只用于加密连接，Redis 地址须以 rediss://、rediss+sentinel:// 或 rediss+cluster:// 开头；否则请去掉它们
redis-url-unreadable = Redis 地址无法识别；形如 { $server } 或 { $socket }
redis-url-unusable = Redis 地址不可用（{ $reason }）
redis-wrong-login = 用户或密码不正确

## reply

reply-cancelling = { $running ->
    [true] 做完当前一步后中止
   *[false] 没有正在执行、可以中止的操作
}
reply-claimed = { $claimed } 条消息已转移给另一消费者{ $gone ->
    [0] {""}
   *[other] ，{ $gone } 条已不在
}{ $without_body ->
    [0] {""}
   *[other] ，{ $without_body } 条内容已丢失
}{ $interrupted ->
    [true] ；已中止
   *[other] {""}
}
reply-consumer-removed = 已从分区 { $partitions } 移除消费者“{ $consumer }”
reply-dead-letters-discarded = 已丢弃 { $count } 条死信{ $compensated ->
    [0] {""}
   *[other] ，取消订单 { $orders } 笔，退还库存 { $pieces } 件
}{ $kept ->
    [0] {""}
   *[other] ，保留 { $kept } 条
}{ $gone ->
    [0] {""}
   *[other] ，{ $gone } 条已不在
}{ $interrupted ->
    [true] ；已中止
   *[other] {""}
}
reply-dead-letters-replayed = 已重放 { $count } 条死信{ $kept ->
    [0] {""}
   *[other] ，保留 { $kept } 条
}{ $gone ->
    [0] {""}
   *[other] ，{ $gone } 条已不在
}{ $interrupted ->
    [true] ；已中止
   *[other] {""}
}
reply-job-ran = { $job } { $outcome }，耗时 { $took } 毫秒
reply-job-result = ：{ $result }
reply-job-switched = { $paused ->
    [true] { $job } { $changed ->
        [true] 已暂停
       *[false] 此前已处于暂停状态
    }
   *[false] { $job } { $changed ->
        [true] 已恢复
       *[false] 并未暂停
    }{ $skipped ->
        [true] ；暂停期间到期的运行已跳过，可用 'seckill jobs run { $job }' 补跑
       *[false] {""}
    }
}
reply-lock-released = 已强制释放锁“{ $name }”
reply-paid = { $payment ->
    [paid] 订单 { $order } 已支付
    [paid_before] 订单 { $order } 此前已支付
    [returned] 订单 { $order } 不能在此支付：其秒杀正在或已经迁回原服务，请待迁回完成后在原服务支付
    [too_late] 订单 { $order } 已关闭，不能支付
   *[not_found] 订单 { $order } 不在 SQL 中
}
reply-repaired = 补回买家 { $buyers } 位，订单重新入队 { $orders } 笔，退还库存 { $pieces } 件{ $stocks ->
    [0] {""}
   *[other] ，重算 SQL 库存 { $stocks } 场
}
reply-replayed = { $overtaken ->
    [true] 计划中的 { $seen } 条均未执行
   *[other] 计划已执行 { $seen } 条：落库 { $persisted }，确认 { $acknowledged }，转死信 { $dead }，保留 { $left }
}{ $rebuilt ->
    [0] {""}
   *[other] ，重建 { $rebuilt }
}{ $without_body ->
    [0] {""}
   *[other] ，清除内容丢失的 { $without_body } 条
}{ $lost ->
    [0] {""}
   *[other] ，保留内容丢失的 { $lost } 条
}{ $gone ->
    [0] {""}
   *[other] ，{ $gone } 条已不在
}{ $changed ->
    [0] {""}
   *[other] ，{ $changed } 条状态已变，未处理
}{ $interrupted ->
    [true] ；已中止
   *[other] {""}
}
reply-restocked = #{ $voucher } 总库存现为 { $initial } 件
reply-rewound = 消费组已回退，{ $again } 条消息将重新投递{ $created ->
    [0] {""}
   *[other] ，新建消费组 { $created } 个
}
reply-rush-done = 压测结束：请求 { $attempts }，准入 { $admitted }，售罄 { $sold_out }，重复 { $duplicate }，每秒 { $rate }，p99 { $p99 } 毫秒；{ $settled ->
    [true] { $seconds } 秒后全部处理完：落库 { $persisted }
   *[other] 尚未全部处理完：已落库 { $persisted }
}{ $rejected ->
    [0] {""}
   *[other] ，拒绝 { $rejected }
}{ $errors ->
    [0] {""}
   *[other] ，无应答 { $errors }
}{ $dead ->
    [0] {""}
   *[other] ，死信 { $dead }
}{ $interrupted ->
    [true] ；已中止
   *[other] {""}
}
reply-rush-stopped = { $tests ->
    [0] #{ $voucher } 没有进行中的压测
   *[other] #{ $voucher } 的压测已停止，不再发送请求
}
reply-sale-changed = { $state ->
    [running] #{ $voucher } 进行中
    [paused] #{ $voucher } 已暂停
    [ended] #{ $voucher } 已永久结束
   *[archived] #{ $voucher } 已归档
}
reply-sale-created = #{ $voucher } 已新建并载入 Redis
reply-voucher-bought = 订单 { $order } 已落库
reply-voucher-created = 优惠券 #{ $voucher } 已新建

## request

request-admitted = 准入
request-average = 平均
request-count = 请求数
request-duplicate = 重复
request-error = 失败
request-error-percent = 错误 %
request-max = 最大
request-min = 最小
request-outcome = 结果
request-per-second = 每秒
request-rejected = 拒绝
request-sold-out = 售罄
request-total = 合计

## sale

sale-conversion = 转化率
sale-converted = 准入 { $admitted }，其中落库 { $persisted }
sale-last = 最近 { $span }
sale-last-load-test = 最近一次压测（毫秒）
sale-left-in-many = { $shards } 个，#{ $first } 至 #{ $last }：每个余 { $least } 至 { $most }，{ $dry } 个已无库存{ $unknown ->
    [0] {""}
   *[other] ，{ $unknown } 个未知
}
sale-left-in-shards = { $shards } 个，余量：{ $left }
sale-lost-in-sql = SQL 丢失
sale-no-data-from-redis = Redis 中暂无这场秒杀的数据。
sale-orders-counted-ago = 订单统计于 { $age }前
sale-outcomes-unknown = 请求数与结果：未知
sale-press-for-its-orders = 按 { KEY("open") } 查看订单
sale-repeat-buyers = 多单买家
sale-set-back = SQL 中
sale-set-back-behind = 比 Redis 旧（可能从备份恢复过），按 { KEY("ledger") } 修复
sale-set-back-lost = 已丢失，不再放行任何请求；按 { KEY("ledger") } 修复
sale-shards = 分片
sale-stock-over-time = 库存曲线

## schedule

schedule-empty-item = 列表中有空项
schedule-fields = cron 表达式应有 5、6 或 7 个字段，而非 { $fields } 个
schedule-negative = 时长不能为负
schedule-never = 调度“{ $text }”永远不会触发，请另填一个
schedule-one-day = 日和星期字段只能有一个是 '?'
schedule-question-mark = '?' 只能单独用作日或星期字段
schedule-range = 间隔 { $interval } 超出范围，请填 100 毫秒到 366 天
schedule-span = 时长应形如 30m、1h 或 90s
schedule-unreadable = 无法识别调度“{ $text }”（{ $why }）；请写 'every 30m'、'after 30m' 或 cron 表达式，如 '0 30 2 * * ?'
schedule-zone-unknown = 没有时区“{ $name }”；请用 Asia/Shanghai 或 UTC 这样的名称

## servers

servers-connections = 已打开 { $open } 个，上限 { $most } 个；处理中的请求 { $requests } 个
servers-latency = p50 { $p50 }，p99 { $p99 }，最大 { $max }
servers-limited = 按用户 { $user } 次，按地址 { $address } 次
servers-none = 没有节点提供 HTTP 服务。可运行 'seckill serve'，或用 --listen ADDR 重新启动本控制台。

## settings

settings-action-value = “{ $action }”：{ $why }
settings-also-applies-while-text = “{ $action }”在输入文本时也有效，须用 'ctrl-q' 这样的按键；“{ $written }”会被当作文本输入
settings-and-would-share-key = “{ $action }”和“{ $other }”在同一界面中都使用按键“{ $key }”
settings-base-must-be-one = base 须为 { $names } 之一；删去此行则用 'dark'
settings-cannot-be-capital-letters-open = “{ $action }”不能用“{ $written }”：大写字母会打开确认框，连按两次就会确认
settings-cannot-read-config-file-check = 配置文件 { $path } 无法读取（{ $why }），请检查 --config
settings-cannot-read-theme-check-theme = 主题 { $path } 无法读取（{ $why }），请检查 --theme
settings-changes-data-and-needs-capital = “{ $action }”会改动数据，只能用大写字母，不能用“{ $written }”
settings-correct-or-remove-line = { $why }；请改正，删去此行则{ $instead }
settings-ctrl-can-only-be-combined = “{ $written }”：ctrl 只能与 i、m 以外的字母组合，终端把这两个组合当作 Tab 和 Enter
settings-default = 用默认值（{ $key } = { $value }）
settings-default-address-of-buyers = 与买家使用同一地址
settings-default-embedded-redis = 使用内置 Redis
settings-default-existing-number-of-partitions = 沿用现有的分区数，没有则为 1
settings-default-generated-name = 节点自动命名
settings-default-no-certificate = 不使用客户端证书
settings-default-sqlite-in-data-directory = 使用数据目录中的 SQLite
settings-default-system-certificates = 使用系统证书
settings-default-working-directory = 导出到当前目录
settings-default-xdg-data-directory = 使用 XDG 数据目录
settings-defaults-apply = 用默认值
settings-has-no-key-left = “{ $action }”没有可用的按键
settings-invalid-config-file = 配置文件 { $path } 有误：{ $why }
settings-invalid-theme = 主题 { $path } 有误：{ $why }
settings-invalid-toml = TOML 语法错误（{ $why }），请改正或删去此行
settings-is-not-colour-use-rrggbb = { $role } 不是颜色，请用 "#rrggbb"、0 到 255 的数字，或 "bright-red"、"default" 这样的名称；删去此行则用 '{ $base }' 的 { $role }
settings-is-not-key-use-character = “{ $shown }”不是按键，请写一个字符、'ctrl-n'、'alt-x'、'f5'，或其中之一：{ $names }
settings-more-errors = { $text }（另有 { $more } 处错误）
settings-node-must-be-to-letters = node 须为 1 到 64 个字母、数字、'-'、'_' 或 '.'
settings-not-utf8 = 不是 UTF-8 文本，请另存为 UTF-8，或删去此行
settings-position = 第 { $line } 行第 { $column } 列：{ $why }
settings-remove-line = { $why }；请改正或删去此行
settings-unknown-action-in-keys-seckill = [keys] 中没有操作“{ $written }”，'seckill keys' 列出全部名称
settings-unknown-role-remove-line = 没有颜色角色“{ $name }”，请删去此行，或改为其中之一：base、{ $known }
settings-unknown-setting = 没有配置项“{ $key }”，请删去此行，或改为其中之一：{ $known }
settings-unknown-theme-use-or-toml = 没有主题“{ $name }”，请用 { $names }，或 ./{ $name }.toml 这样的 TOML 文件
settings-wanted-address = 带端口的地址，如 "127.0.0.1:9100"
settings-wanted-boolean = {" "}true 或 false
settings-wanted-integer = {" "}{ $least } 到 { $most } 之间的整数
settings-wanted-keys = 按键（如 "ctrl-n"）或按键列表
settings-wanted-networks = 网段或地址的列表，如 ["10.0.0.0/8"]
settings-wanted-one-of = {" "}{ $names } 之一
settings-wanted-table = {" "}TOML 表
settings-wanted-text = 带引号的字符串
settings-without-setting = { $why }；也可不设置 { $key }，此时{ $instead }
settings-wrong-value = { $key } 应为{ $wanted }

## store

store-ca-not-utf8 = 数据库 CA 证书的路径不是有效的 UTF-8：{ $path }，请重命名该文件
store-cannot-be-opened-as-database = 无法作为数据库打开 { $path }，请检查所在目录，或另指定 --database
store-changed = #{ $voucher } 刚被他人更改，请查看后再操作
store-create-it-with-create-database = { $message }；请用 CREATE DATABASE 创建，或更正 --database
store-database-is-unavailable-work-continues = 数据库不可用（{ $reason }），恢复后自动继续
store-directory-does-not-exist-create = 目录 { $path } 不存在，请创建，或另指定 --database
store-ended = #{ $voucher } 已结束，请新建一场
store-fenced = 锁“{ $name }”已由其他持有者占用，此次写入过迟，已拒绝
store-failed = 数据库未能执行请求：{ $reason }；可查看其日志，或运行 'seckill doctor'
store-file-closed = 无法访问 { $path }（{ $reason }），请另指定 --database
store-file-damaged = 数据库文件已损坏（{ $reason }），请恢复备份
store-file-denied = 当前用户不能写入 { $path }，请更改权限，或另指定 --database
store-file-foreign = { $path } 中有其他程序的表（{ $tables }），请另指定 --database
store-file-not-a-file = { $path } 不是文件，--database 须为文件的路径
store-file-read-only = { $path } 只读，请使文件及其目录可写，或另指定 --database
store-file-read-only-system = { $path } 位于只读的文件系统，请改为可写，或另指定 --database
store-file-removed = { $path } 在使用中被删除：此后写入的数据会在进程结束时丢失；请停止所有 seckill 进程，恢复备份后重新启动
store-file-replaced = { $path } 在使用中被替换：此后写入的数据不会进入新文件；请停止所有 seckill 进程后重新启动
store-file-unreadable = 无法读取 { $path }（{ $reason }），请另指定 --database
store-file-unusable = { $path } 不可用（{ $reason }），请另指定 --database
store-foreign = Redis 中的键属于另一个数据库，而不是 { $database }（未作任何更改）；请用 --database 指定与它对应的数据库，或换用空的 Redis
store-is-not-directory-give-another = { $path } 不是目录，请另指定 --database
store-is-not-sqlite-database = { $path } 不是 SQLite 数据库，或已损坏，请另指定 --database
store-is-not-utf-which-sqlite = 路径 { $path } 不是 UTF-8 编码（SQLite 要求），请另指定 --database
store-it-cannot-write-free-space = 它无法写入：{ $message }；请腾出磁盘空间
store-locked = 数据库被其他程序锁定（可用 fuser 查出），锁释放后运行中的节点自动继续
store-log-position = “{ $text }”不是日志位置，请使用上一页末尾给出的位置，例如 1795000000000-17
store-no-answer-within-s = { $seconds } 秒内没有应答
store-no-sale = 没有秒杀 #{ $voucher }，可用 'seckill sale list' 查看
store-not-encrypted = 无法建立加密连接：{ $message }；请检查 store.tls，以及 store.ca 中颁发者的证书
store-order-was-not-written = 订单 { $order } 未写入，也找不到冲突的行
store-pieces-cannot-be-added = #{ $voucher } 现有 { $initial } 件，不能再增加 { $by } 件，请填 1 到 { $room }
store-reason-closed = 存储已关闭
store-reason-connection-broke = 连接中断
store-reason-connection-failed = 没有连接：{ $reason }
store-reason-contention = 并发事务一直在更改相同的行
store-reason-damaged = 数据库列 { $column } 的值 { $value } 无效
store-reason-denied = 它拒绝该用户、密码或请求：{ $message }；请检查 --database 和 GRANT
store-reason-disk-full = 磁盘已满，请腾出空间
store-reason-disk-full-log = 磁盘已满，请至少腾出 { $needed } MiB：随后数据库的预写日志会自动落盘并释放 { $log } MiB
store-reason-drill = 故障注入
store-reason-file-failed = 数据库文件无法读写：{ $message }
store-reason-file-is-read-only = 数据库文件只读，请使文件及其目录可写
store-reason-id-taken = 订单号 { $order } 属于另一笔订单，未购买
store-reason-other-protocol = 其应答不符合 { $database } 协议：{ $message }
store-reason-packet-too-large = { $message }；请调高服务器的 max_allowed_packet
store-reason-pool-busy = 本进程的 { $connections } 个连接都在使用中
store-reason-replica = 它是只读从库，或被设为只读；请改用主库的地址，或更改其设置
store-reason-rows-locked = 其他事务锁定了相同的行
store-reason-schema-locked = 另一个进程正在更改表结构
store-reason-silent = 接受连接但没有应答
store-reason-statement-binlog = 其 binlog_format 为 STATEMENT，请改为 READ COMMITTED 所需的 ROW 或 MIXED
store-reason-statement-timed-out = 语句执行超过 store.statement_ms
store-reason-too-large = { $number } 超出数据库的范围
store-reason-too-many-connections = 它不再接受连接：{ $message }；请提高其上限，或调低 store.pool
store-reason-unreadable-sale = 秒杀 #{ $voucher } 无法读取：{ $why }
store-reason-unreachable = { $server } 没有应答
store-refused = 数据库拒绝：{ $reason }
store-rule-expired = 优惠券 #{ $voucher } 已过期，不能购买，请另选一张
store-rule-flash-sale = 优惠券 #{ $voucher } 只能在秒杀中购买，不是普通优惠券
store-rule-former = 优惠券编号 { $voucher } 在旧版本中属于秒杀 #{ $sale } 的一个分片，旧消息可能仍使用该编号；请改用其他优惠券编号
store-rule-full = #{ $voucher } 已有 { $initial } 件，已达一场秒杀的上限，请另建一场
store-rule-off = 优惠券 #{ $voucher } 已下架，不能购买，请另选一张
store-rule-sold = 不能从 #{ $voucher } 减少 { $by } 件：共 { $initial } 件，未售 { $stock } 件，至少留 1 件；不再出售请结束该场
store-rule-window = #{ $voucher } 在 { $end } 结束，不能从 { $begin } 开始，请选更早的时间
store-sale-of-voucher = #{ $voucher } 尚未结束，请先结束再归档
store-schema-changed = 表结构被其他程序更改：{ $reason }；恢复后自动继续
store-schema-encoding = 该数据库的文本编码为 { $encoding }，请以 ENCODING 'UTF8' 新建一个
store-schema-failed = 数据库升级到结构版本 { $version } 失败：{ $reason }；请按数据库给出的原因修正，或恢复备份
store-schema-gap = 数据库记录了结构版本 { $reached }，却缺少之前的版本 { $version }；请恢复 _sqlx_migrations 中的这一行，或恢复数据库备份
store-schema-half-done = 升级到结构版本 { $version } 时中断，数据库未升级完；请恢复备份，或另指定 --database
store-schema-missing = { $database } 中没有 seckill 的表，而 --read-only 不会创建；请检查 --database，或先去掉 --read-only 运行一次
store-schema-newer = 该数据库的结构版本为 { $version }，由更新的 seckill 创建，当前程序只支持到 { $known }；请升级 seckill，或另指定 --database
store-schema-no-schema = 该用户的 search_path 中没有存在的模式，请创建一个，或更改 search_path
store-schema-old-server = 服务器为 { $version }，最低需要 { $oldest }，请升级
store-schema-older = 该数据库的结构版本为 { $version }，当前 seckill 需要 { $known }，而 --read-only 不会升级；请先去掉 --read-only 运行一次
store-schema-other = 该数据库的结构版本 { $version } 与当前 seckill 的不同；请用创建它的 seckill，或另指定 --database
store-schema-other-server = 服务器为“{ $version }”，不支持 seckill 所需的语句；请使用 MySQL、MariaDB 或 PostgreSQL
store-schema-pooler = { $server } 的连接池让每个事务使用不同的会话，而 seckill 需要独占会话；请在 PgBouncer 中为该数据库设置 pool_mode = session，或直接填写 PostgreSQL 的地址
store-schema-pooler-reset = { $server } 的连接池会把一个客户端留下的设置和预备语句交给下一个客户端；请在 PgBouncer 中设置 server_reset_query = DISCARD ALL，或直接填写 PostgreSQL 的地址
store-schema-stuck = 该数据库的结构无法升级（{ $reason }），请另指定 --database
store-silent = { $name } 在 { $seconds } 秒内没有应答，请检查数据库是否卡死，或被其他程序锁住
store-there-is-no-voucher-seckill = 没有优惠券 #{ $voucher }，可用 'seckill voucher list' 查看
store-this-process-paused-within-transaction = 本进程在事务中停顿过久
store-unbound = Redis 无响应，无法确认 { $database } 是否与它对应；数据库未作任何更改。请启动 Redis，或检查其地址
store-unknown = 数据库在提交时出错（{ $reason }），结果未知，请核对结果后再重试
store-url-file = { $name } 的文件无法读取（{ $reason }）；请改正路径
store-url-forms = sqlite:PATH、mysql://USER:PASSWORD@HOST/DATABASE 或 postgres://USER:PASSWORD@HOST/DATABASE
store-url-memory = sqlite::memory: 不可用，因为多个连接共用数据库；请写成 { $forms }
store-url-names-no-database = 地址缺少数据库名
store-url-no-database = 数据库地址缺少数据库名；请写成 { $form }
store-url-no-file = 数据库地址缺少文件路径；请写成 { $forms }
store-url-no-host = 数据库地址缺少主机；请写成 { $forms }
store-url-no-scheme = 数据库地址缺少类型前缀；请写成 { $forms }
store-url-parameter = 数据库地址的参数“{ $name }”未知；{ $database } 地址可用 { $known }
store-url-parameters = SQLite 地址不带参数（文件名中的问号请写成 %3F）；请写成 { $forms }
store-url-scheme = 数据库地址的类型未知；请写成 { $forms }
store-url-unreadable = 数据库地址无法识别（{ $reason }）；请写成 { $forms }
store-url-unusable = 数据库地址不可用（{ $reason }），请更正

## stream

stream-acknowledged = 已确认
stream-acknowledged-or-dead = 已确认或为死信
stream-added = 写入
stream-after-them-delivered-anyway = 其后的：照常投递
stream-all-partitions = 所有分区
stream-before-the-oldest = 最早消息之前 { $gone } 条
stream-consumer = 消费者
stream-consumer-has-no-details-beyond = 消费者没有更多详情
stream-consumer-or-node = 消费者，或节点（取其消费者）
stream-delivered = 投递至
stream-enter-consumer-that-receives-them = 请填写接收消息的消费者
stream-entries-are-redelivered = 将重新投递 { $again } 条：从 { $first }（{ $from }）到 { $to }。
stream-entries-are-redelivered-in-partitions = 将在 { $count } 个分区重新投递 { $again } 条。
stream-entry-is-not-pending = 该消息不处于待确认状态，无法转移
stream-following = 跟随最新
stream-from = 起点
stream-give-entry = 转移消息 { $entry }
stream-give-of = 转移 { $holder } 的 { $pending } 条
stream-grows-by = +{ $rate }
stream-held-at-press-to-follow = 停在 { $at }；按 { KEY("last") } 跟随最新
stream-holds-entries-which-would = { $name } 持有 { $held } 条消息，移除会丢失；请先按 { KEY("claim") } 转移
stream-holds-no-entries-to-transfer = { $name } 没有可转移的消息
stream-in-dead-letters = 在死信中
stream-in-partition-only = { $number ->
    [all] 适用于所有分区。
   *[other] 仅限分区 { $number }。
}
stream-in-sql-already-acknowledged = 已在 SQL 中：直接确认
stream-kept = 保留
stream-made-there = { $made } 个消费组已丢失，将在该处重建。
stream-malformed-become-dead-letters = 无效消息：转为死信
stream-newest = 最新
stream-no-consumer-of-another-live = 没有其他在线节点的消费者可以接收；请先启动一个节点
stream-no-consumer-reads-the-stream = 没有消费者在读取消息流
stream-no-pending-entries-entries-wait = 没有待确认的消息。消息流积压 { $count } 条（{ KEY("stream") }）。
stream-no-pending-entries-every-delivered = 没有待确认的消息，已投递的订单全部落库。
stream-no-pending-entries-lag = 没有待确认的消息。消息流积压未知（{ KEY("stream") }）。
stream-node-of-is-alive = { $name } 的节点在线，会重新创建它
stream-not-counted-added = 未统计；写入 { $added }
stream-not-in-sql-written-if = 不在 SQL 中：有库存则写入
stream-nothing-changes-yet-confirmation = 尚未执行：接下来会显示准确数量并请求确认。
stream-nothing-yet = 尚无
stream-number-of-its-day-issued = { $id }，当日第 { $sequence } 号，生成于 { $issued }
stream-of-added = { $read } / 写入 { $added }
stream-of-these-no-longer-assigned = 其中：已无买家持有该订单
stream-of-these-not-in-sql = 其中：不在 SQL 中，将被跳过
stream-older-entries-are-trimmed = 更早的消息已裁剪，无法找回
stream-older-not-delivered = 更早的消息不再投递
stream-oldest = 最早
stream-opens-them = { $text }；按 { KEY("letters") } 查看
stream-partition = 分区
stream-partition-of-0-to = 分区 { $number }（0 到 { $last }）
stream-pending-now-once = 待确认中：只处理一次
stream-pending-with-idle-delivered = 由 { $consumer } 持有，空闲 { $idle }，已投递 { $times } 次
stream-press-to-show-or-mask = { $user }   按 { KEY("users") } 显示或脱敏
stream-preview = 预览
stream-read = 已读
stream-redeliver-entries = 重新投递消息
stream-select-consumer-in-list-above = 请先按 { KEY("up") } { KEY("down") } 在上方列表中选择一个消费者，再按一次 { KEY("remove-consumer") }
stream-start-entry-id-or-10m = start、消息 ID、14:30 或 -10m
stream-state = 状态
stream-statistics-are-ready = 统计已就绪
stream-stopped = 已停止
stream-stream-is-empty-each-admitted = 消息流为空。每准入一位买家会新增一条消息。
stream-there-is-only-one-partition = 只有一个分区
stream-to = 交给
stream-too-many-dead-letters = { $text }：死信过多，未全部检查；按 { KEY("letters") } 查看
stream-trimmed = 已裁剪
stream-users = { $are_masked ->
    [true] 用户 ID 已脱敏
   *[false] 用户 ID 已明文显示
}
stream-waiting = 待投递

## subject

subject-begins = ，开始于 { $begin }
subject-claim = 分区 { $partition } 的 { $count } 条消息，从“{ $from }”到“{ $to }”
subject-claim-forced = ；强制
subject-compensated = ，并退还库存
subject-consumer = “{ $name }”
subject-consumer-of = 分区 { $partition } 的“{ $name }”
subject-ends = ，结束于 { $end }
subject-findings = #{ $sale }：{ $findings }
subject-forced = ，强制
subject-letters = { $count } 条死信
subject-letters-all = 全部死信
subject-letters-matching = 符合“{ $filter }”的死信
subject-limit = ，每人限购 { $limit }
subject-lock = “{ $name }”，持有者 { $owner }
subject-new-sale = “{ $title }”，库存 { $stock }
subject-new-voucher = “{ $title }”，售价 { $pay } 分，面值 { $actual } 分，{ $status ->
    [on] 上架
    [off] 下架
   *[expired] 过期
}
subject-partition = 分区 { $number }
subject-partition-count = { $from } 改为 { $to }
subject-partition-no-group-to-redelivers = 分区 { $partition }（无消费组）回退到 { $from }，{ $again } 条重新投递
subject-pieces = #{ $sale }，{ $count } 件
subject-plan = 计划 { $digest } 的 { $entries } 条消息
subject-plan-filtered = 计划 { $digest } 的 { $entries } 条消息，“{ $filter }”
subject-rewind = 分区 { $partition }（已投递到 { $was }）回退到 { $from }，{ $again } 条重新投递
subject-rules = ，使用规则“{ $text }”
subject-rush = #{ $sale }，买家 { $users }，种子 { $seed }
subject-shards = ，{ $shards } 个分片
subject-shop = ，商铺 { $shop }
subject-sub-title = ，副标题“{ $text }”
subject-users = { $count } 个用户

## tables

tables-2xx = 2XX
tables-4xx = 4XX
tables-5xx = 5XX
tables-address = 地址
tables-admitted = 准入
tables-age = 已等待
tables-buyers = 买家
tables-connections = 连接
tables-depth = 层数
tables-entry = 消息
tables-fault = 问题
tables-held = 已持有
tables-holder = 持有者
tables-id = ID
tables-idle = 空闲
tables-in-flight = 在途
tables-in-progress = 处理中
tables-initial = 总库存
tables-job = 定时任务
tables-last = 上次
tables-lease = 租期
tables-last-minute = 近一分钟
tables-left = 剩余
tables-left-in-redis = Redis 剩余
tables-left-in-sql = SQL 剩余
tables-letter = 死信
tables-limited = 限流
tables-lock = 锁
tables-next = 下次
tables-node = 节点
tables-none-its-fields-are-valid = 无，字段有效
tables-of = 总量
tables-on-sale = 总库存
tables-order = 订单
tables-outcome = 结果
tables-owner = 持有标识
tables-p50 = P50
tables-p99 = P99
tables-persisted = 落库
tables-phase = 状态
tables-reason = 原因
tables-redis-left = Redis 剩余
tables-replays = 重放
tables-requests-per-second = 请求/秒
tables-result = 结果
tables-rows = 行数
tables-sale = 秒杀
tables-schedule = 调度
tables-sql-left = SQL 剩余
tables-sql-orders = SQL 订单
tables-stock-left = 剩余库存
tables-task = 任务
tables-title = 标题
tables-token = 栅栏令牌
tables-took = 耗时
tables-tries = 投递
tables-under-way = 在途
tables-user = 用户
tables-verdict = 判定
tables-waiting = 等待
tables-window = 起止时间
tables-written-per-second = 单/秒

## terminal

terminal-console-does-not-support-use = 控制台不支持{ $term ->
        [none] 未知终端（未设置 TERM）
       *[other] 终端类型“{ $term }”
    }；请用 'seckill status' 或 'seckill demo --headless'，或设置终端类型，如 TERM=xterm-256color
terminal-console-requires-terminal-use-seckill = 控制台需要终端；没有终端时，请用 'seckill status --json'、'seckill demo --headless'、'seckill lab NAME' 或 'seckill attach status'
terminal-is-not-utf-locale-drawing = { $locale } 不是 UTF-8 环境：因 --lang zh { $in_ascii ->
        [true] 文字仍用 UTF-8
       *[false] 仍以 UTF-8 绘制
    }；如有乱码请用 --lang en
terminal-terminal-error-run-seckill-doctor = 终端出错：{ $why }；请用 'seckill doctor' 检查

## theme

theme-not-a-file = 不是主题文件

## time

time-and-more = { $more ->
    [0] {""}
   *[other] {"  "}另有 { $more } 条
}
time-display-paused-and-step-through = 画面已冻结，{ KEY("earlier") } 和 { KEY("later") } 查看历史，{ KEY("freeze") } 恢复
time-last-min = 最近 { $minutes } 分钟
time-last-s = 最近 { $seconds } 秒
time-no-data-for-that-moment = 该时刻没有数据
time-no-mark = { $later ->
    [true] 此刻之后没有操作或告警
   *[false] 图表中此刻之前没有操作或告警
}
time-out-of-range = 超出范围
time-start-of-chart-press = 图表起点，按 { KEY("zoom-out") } 显示更长时间
time-this-is-latest-moment = 已是最新时刻
time-values-of-rest-is-current = { $clock } 的数据；其余为当前数据
time-window-is-too-small = 窗口过小，图表至少需要 80x24

## view

view-activity = 日志
    .help = 转到日志
    .name = 日志
view-attach = 接入的服务
    .help = 转到接入的服务
    .name = 接入的服务
view-http = HTTP
    .help = 转到 HTTP
    .name = HTTP 服务
view-jobs = 任务
    .help = 转到任务
    .name = 定时任务
view-lab = 实验室
    .help = 转到实验室
    .name = 实验室
view-ledger = 对账
    .help = 转到对账
    .name = 对账
view-letters = 死信
    .help = 转到死信
    .name = 死信
    .tab = 死信
view-locks = 锁
    .help = 转到锁
    .name = 锁
view-orders = 订单
    .help = 转到订单
    .name = 订单
view-overview = 总览
    .help = 转到总览
    .name = 总览
view-pending = 待确认
    .help = 转到待确认
    .name = 待确认
view-sales = 秒杀
    .help = 转到秒杀
    .name = 秒杀
view-stream = 消息流
    .help = 转到消息流
    .name = 消息流
