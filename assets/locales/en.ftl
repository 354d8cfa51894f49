# English. Each message has the same ID in every language; tests compare the files with each other and with the sources.

## action

action-abort = stop
    .help = cancel launch or stop load test
    .name = cancel launch
action-accept = yes
    .help = confirm
action-arm = schedule
    .help = schedule a sale with a load test
    .name = schedule launch
action-back = back
    .help = go back one step
action-cancel = cancel
    .help = close without changes
action-claim = claim
    .help = transfer pending entries
    .name = claim
action-close = close
    .help = close the details
action-compensate = return stock
    .help = cancel orders and return stock
    .name = return stock
action-copy-name = copy
    .help = copy the ID or name of the row
    .name = copy
action-copy-row = copy row
    .help = copy the row in export format
    .name = copy row
action-discard = discard
    .help = discard if no buyer is waiting
    .name = discard
action-down = down
    .help = move down
action-earlier = earlier
    .help = step back in history
    .name = earlier
action-end = end
    .help = end a sale permanently
    .name = end
action-export = export
    .help = export the screen or table
    .name = export
action-filter = filter
    .help = filter rows by text; !text excludes
    .name = filter
action-fire = launch
    .help = launch now, skip the countdown
    .name = launch now
action-first = first
    .help = first row, then first page
action-freeze = freeze
    .help = pause or resume the display
    .name = freeze
action-guide-next = next step
    .help = next step of a demo, hint in a drill
    .name = next step
action-help = help
    .help = show this help
    .name = help
action-lab-database = database
    .help = next database for the designs
    .name = lab database
action-lab-mend = fixed by
    .help = go to the design that fixes this one
    .name = fixed by
action-lab-panel = bars
    .help = bars or details; next broken promise
    .name = lab bars
action-lab-run = run
    .help = run the marked designs, or the row
    .name = run designs
action-lab-work = work
    .help = change buyers, stock, seeds and more
    .name = lab work
action-last = last
    .help = last row, then next page
action-later = later
    .help = step forward in history
    .name = later
action-level = level
    .help = show all, alarms, or commands
    .name = level
action-mark = mark
    .help = mark or unmark the row, move down
    .name = mark
action-mark-after = next event
    .help = next command or alarm
    .name = next event
action-mark-all = mark all
    .help = mark all, or all filtered rows
    .name = mark all
action-mark-before = previous event
    .help = previous command or alarm
    .name = previous event
action-mouse = mouse
    .help = toggle mouse support
    .name = mouse
action-new-sale = new
    .help = create a sale
    .name = new sale
action-next-page = next page
    .help = next page: older orders
    .name = next page
action-next-part = next
    .help = next field or button
action-next-view = next
    .help = next view
action-open = detail
    .help = show details of the row
    .name = detail
action-page-down = page down
    .help = page down, then next page
action-page-up = page up
    .help = page up, then previous page
action-palette = command
    .help = run a command by name
action-pane = consumers
    .help = switch consumers / entries
    .name = consumers / entries
action-partition = partition
    .help = next partition, or all
    .name = partition
action-pause = pause
    .help = pause or resume
    .name = pause / resume
action-pay = pay
    .help = mark an unpaid order as paid
    .name = pay
action-picture = screenshot
    .help = save a screenshot immediately
action-plan-recovery = plan
    .help = plan the recovery of entries
    .name = plan recovery
action-present = presenter
    .help = toggle presenter mode
    .name = presenter
action-press = select
    .help = activate the selection
action-previous-page = previous page
    .help = previous page: newer orders
    .name = previous page
action-previous-part = previous
    .help = previous field or button
action-previous-view = previous
    .help = previous view
action-quit = quit
    .help = quit; asks during a load test
    .name = quit
action-quit-now = quit
    .help = quit immediately
action-release = release
    .help = force-release a lock
    .name = release
action-remove-consumer = remove
    .help = remove an empty, dead consumer
    .name = remove consumer
action-repair = repair
    .help = repair the marked sales, or all
    .name = repair ledger
action-replay-letters = replay
    .help = replay marked or selected letters
    .name = replay dead letters
action-restock = restock
    .help = change the stock of a sale
    .name = restock
action-rewind = rewind
    .help = redeliver entries
    .name = rewind
action-run-job = run now
    .help = run a job now
    .name = run job
action-rush = test
    .help = run simulated buyers against a sale
    .name = load test
action-sort-next = sort
    .help = sort by the next column
    .name = sort
action-sort-turn = reverse
    .help = reverse the sort order
    .name = reverse order
action-start = start
    .help = start a planned sale now
    .name = start
action-stop-command = stop
    .help = stop after the current batch
    .name = stop
action-suspend = suspend
    .help = return to the shell; fg resumes
action-up = up
    .help = move up
action-users = users
    .help = show or mask users
    .name = users
action-zoom-in = zoom in
    .help = show a shorter time range
    .name = zoom in
action-zoom-out = zoom out
    .help = show a longer time range
    .name = zoom out
action-zoom-reset = fit
    .help = fit the latest orders
    .name = zoom to fit

## activity

activity-alarms = alarms
activity-all = all
activity-audit = { $key ->
    [balanced] passed
    [off] failed
   *[other] { $text }
}
activity-commands = commands
activity-event = { $event }
activity-figure = { $key ->
    [db_stock] stock in SQL
    [dead] dead letters
   *[other] { $name }
}
activity-figures = metrics
activity-following = following
activity-follows = press { KEY("last") } to follow
activity-lines = { $count ->
    [one] 1 line
   *[other] { $count } lines
}
activity-log-is-empty-commands = The log is empty. Commands and alarms are recorded here.
activity-no-on-this-page-press = No { $level } on this page.  Press { KEY("level") } to change the level.
activity-node = { $at }, node { $node }
activity-not-given = not given
activity-on = OBJECT
activity-subject = { $key ->
    [dead-letters] dead letters
    [consumer-group] consumer group
    [time-zone] time zone
   *[other] { $subject }
}
activity-to = { $first } to { $last }
activity-unchanged = unchanged
activity-user = operator
activity-what = EVENT
activity-when = when
activity-who = OPERATOR

## admission

admission-no-answer = no reply in time ({ $reason }); send the request again: if the buyer was admitted, the reply contains the order ID
admission-stopping = the engine is stopping; send the request again once it runs
admission-too-late = no order: the attempt was too late, or its order was closed as unpaid before the reply came; buy again
admission-late = Redis replied after { $ms } ms, not within the time to pay; the request is repeated with the same order ID
admission-unconfirmed = only { $held } of { $replicas } replicas have the order so far

## alarms

alarms-audit-failed =
    { $reader ->
        [overview] Audit failed: { $finding }{ $more ->
                [0] {""}
               *[other] ; { $more } more
            }.  Press { KEY("ledger") } { $repairable ->
                [true] to repair
               *[false] for details
            }.
        [presenter] Audit failed; press { KEY("present") } then { KEY("ledger") } for details.
       *[status] audit failed: { $finding }{ $more ->
                [0] {""}
               *[other] ; { $more } more
            }; see 'seckill audit'
    }
alarms-clock-skew =
    { $reader ->
        [overview] The clock of Redis is { $by } { $side ->
                [ahead] ahead of
               *[behind] behind
            } { $of ->
                [host] this host's
                [database] that of the database
               *[node] that of node { $node }
            }: sales open and close by it. Synchronize the clocks (NTP).
        [presenter] The clocks of Redis and { $of ->
                [host] this host
                [database] the database
               *[node] node { $node }
            } differ by { $by }.
       *[status] the clock of Redis is { $by } { $side ->
                [ahead] ahead of
               *[behind] behind
            } { $of ->
                [host] this host's
                [database] that of the database
               *[node] that of node { $node }
            }: sales open and close by it; synchronize the clocks of both hosts (NTP)
    }
alarms-consumer =
    { $reader ->
        [overview] { $consumer } { $state ->
                [dead] is dead
                [unknown] is idle; its node is unknown
               *[silent] is idle but its node is alive
            }.  Press { $risk ->
                [lost] { KEY("ledger") } to restore the lost sale first, then { KEY("plan-recovery") } to recover
                [none] { KEY("pending") } to open, { KEY("plan-recovery") } to recover; no order is at risk. To acknowledge
               *[unknown] { KEY("pending") } to open, { KEY("plan-recovery") } to recover
            }: { $count ->
                [one] { $count } entry
               *[other] { $count } entries
            }.
        [presenter] { $risk ->
                [none] { $count ->
                    [one] entry
                   *[other] entries
                } to acknowledge; no order is at risk; { KEY("plan-recovery") } to recover.
               *[unknown] { $count ->
                    [one] order
                   *[other] orders
                } held by { $state ->
                    [dead] a dead node
                    [unknown] an unknown node
                   *[silent] an idle consumer
                }; { $risk ->
                    [lost] restore the lost sale first.
                   *[unknown] { KEY("plan-recovery") } to recover.
                }
            }
       *[status] { $consumer } { $state ->
                [dead] is dead and holds
                [unknown] belongs to no known node and holds
               *[silent] holds
            } { $count ->
                [one] 1 entry
               *[other] { $count } entries
            }{ $state ->
                [silent] {" "}and has read none for { $idle }
               *[other] {""}
            }{ $risk ->
                [none] {" "}to acknowledge; no order is at risk
                [some] , of which at most { $orders } lack their order in SQL
               *[unknown] {""}
            }; { $risk ->
                [lost] first restore the lost sale with 'seckill audit --repair', then recover
               *[unknown] recover
            }: 'seckill pending apply'
    }
alarms-damaged =
    { $reader ->
        [overview] Lost in Redis, not yet reconciled: { $short }.  The affected sales admit no buyers.
        [presenter] Redis lost data; it is being reconciled.
       *[status] keys in Redis are inconsistent: { $keys }; the affected sales admit no buyers until a node reconciles them ('seckill work' runs one)
    }
alarms-data-loss =
    { $reader ->
        [overview] { $keys ->
                [none] Redis lost data: { $parts }.
               *[other] Redis lost { $keys }: { $parts }.
            }{ $refused ->
                [0] {""}
               *[other] {"  "}Press { KEY("letters") } to list them.
            }{ $unknown ->
                [0] {""}
               *[other] {"  "}Press { KEY("activity") } for the event.
            }{ $lost ->
                [true] {"  "}An unknown number of dead letters without an order were lost.
               *[false] {""}
            }{ $stuck ->
                [0] {""}
               *[other] {"  "}Press { KEY("pending") } then { KEY("plan-recovery") } to recover the rest.
            }{ $again ->
                [0] {""}
               *[other] {"  "}The same keys are lost again and again: 'seckill doctor' shows whether Redis evicts them.
            }{ $open ->
                [0] {"  "}{ $keys ->
                        [none] No action needed.
                       *[other] 'seckill doctor' shows whether Redis evicts keys.
                    }
               *[other] {""}
            }
        [presenter] Redis lost data; { $unknown ->
                [0] { $refused ->
                        [0] everything was restored
                       *[other] admitted orders that cannot be fulfilled: { $refused }
                    }
               *[other] some buyers may be missing
            }.
       *[status] Redis lost data and was reconciled with SQL and the stream: { $loss }{ $refused ->
                [0] {""}
               *[other] ; see 'seckill dead list'
            }{ $unknown ->
                [0] {""}
               *[other] ; 'seckill activity' has the event
            }{ $stuck ->
                [0] {""}
                [one] ; dead consumers hold 1 entry: 'seckill pending apply'
               *[other] ; dead consumers hold { $stuck } entries: 'seckill pending apply'
            }{ $again ->
                [0] {""}
               *[other] ; the same keys are lost again and again, and counted each time: 'seckill doctor' shows whether Redis evicts them, otherwise another program deletes them
            }{ $open ->
                [0] { $keys ->
                        [none] ; no action needed
                       *[other] ; 'seckill doctor' shows whether Redis evicts keys, otherwise another program deleted them
                    }
               *[other] {""}
            }
    }
alarms-dead-letters =
    { $reader ->
        [overview] { $count ->
                [one] dead letter waits
               *[other] dead letters wait
            } for review.  Press { KEY("letters") } to open.
        [presenter] { $count ->
                [one] dead letter
               *[other] dead letters
            }; press { KEY("present") } then { KEY("letters") } to open.
       *[status] { $count ->
                [one] 1 dead letter
               *[other] { $count } dead letters
            } to review: 'seckill dead list'
    }
alarms-foreign-key =
    { $reader ->
        [overview] Redis key { $key } holds a { $holds } that another program wrote{ $kind ->
                [lock] ; the lock cannot be acquired.  Rename the key.
               *[other] .  Rename it, then run 'seckill audit --repair'.
            }
        [presenter] Another program overwrote a key of the sale in Redis.
       *[status] { $found }
    }
alarms-job-failed =
    { $reader ->
        [overview] ago the last run of { $job } failed.  Press { KEY("jobs") } for the reason, { KEY("run-job") } to run it again: { $why }
        [presenter] A job failed; press { KEY("present") } then { KEY("jobs") } for the reason.
       *[status] the last run of job { $job } failed { $ago } ago: { $why }; run it again: 'seckill jobs run { $job }'
    }
alarms-lag-high =
    { $reader ->
        [overview] { $lag ->
                [one] entry waits
               *[other] entries wait
            } for a consumer.  Press { KEY("stream") } for the consumers; 'seckill work' adds a node.  { $drains ->
                [none] The lag is not shrinking.
               *[other] Drains in { $drains }.
            }
        [presenter] { $lag ->
                [one] order waits
               *[other] orders wait
            } for SQL; press { KEY("present") } then { KEY("stream") } for the consumers.
       *[status] { $lag ->
                [one] 1 entry waits
               *[other] { $lag } entries wait
            } for a consumer{ $drains ->
                [none] {" "}and the lag does not shrink
               *[other] ; draining takes { $drains } at this rate
            }; 'seckill work' adds a node
    }
alarms-no-group =
    { $reader ->
        [overview] The stream has no consumer group, and its pending list is gone. A running node recreates the group and reads the stream again.  Press { KEY("stream") } to open.
        [presenter] The stream has no consumer group.
       *[status] the consumer group is missing; a running node recreates it
    }
alarms-no-reply-within-s = no reply within { $seconds } s
alarms-orders-wait =
    { $reader ->
        [overview] #{ $sale }: the database rejects the orders of this sale; { $waiting ->
                [0] they wait
                [one] { $waiting } order waits
               *[other] { $waiting } orders wait
            } until this is corrected there: { $reason }.
        [presenter] The orders of one sale wait for the database.
       *[status] the database accepts no orders of sale #{ $sale }; { $waiting ->
                [0] they are
                [one] { $waiting } order is
               *[other] { $waiting } orders are
            } kept and retried: { $error }; correct this in the database, then they are written
    }
alarms-oversold =
    { $reader ->
        [overview] { $sales }: more buyers in Redis than pieces, so no buyer is admitted.  Press { KEY("sales") }, add the missing pieces with { KEY("restock") }, then press { KEY("ledger") } to repair.
        [presenter] A sale has more buyers than pieces and stays closed.
       *[status] { $sales }: more buyers in Redis than pieces, so no buyer is admitted; add the missing pieces with 'seckill sale restock', then 'seckill audit --repair'
    }
alarms-redis-away =
    { $reader ->
        [overview] Redis is unreachable; the display is stale. Retrying: { $reason }.
        [presenter] Redis is unreachable: the display is stale.
       *[status] { $error }
    }
alarms-redis-read-only =
    { $reader ->
        [overview] Redis rejects writes and all sales are stopped: { $step } ({ $reason }).
        [presenter] Redis rejects writes: buyers wait.
       *[status] { $error }
    }
alarms-sale-unreadable =
    { $reader ->
        [overview] #{ $sale }: a row of this sale in SQL cannot be read, so it is neither shown nor audited nor reconciled. Correct the row: { $reason }.
        [presenter] A row of one sale in SQL cannot be read.
       *[status] a row of sale { $sale } in SQL cannot be read, so it is neither shown nor audited nor reconciled; correct the row: { $error }
    }
alarms-sales-lost =
    { $reader ->
        [overview] SQL has lost { $sales }, which Redis still has: no buyer is admitted{ $orders ->
                [0] {""}
                [one] , and 1 admitted order is not in SQL
               *[other] , and { $orders } admitted orders are not in SQL
            }.  Press { KEY("ledger") } to repair.
        [presenter] SQL has lost a sale; press { KEY("present") } then { KEY("ledger") } to restore it.
       *[status] SQL has lost { $sales }, which Redis still has: no buyer is admitted{ $orders ->
                [0] {""}
                [one] , and 1 admitted order is not in SQL
               *[other] , and { $orders } admitted orders are not in SQL
            }; restore it from Redis: 'seckill audit --repair'
    }
alarms-server-back =
    { $reader ->
        [overview] { $server } is reachable again after { $away }.
        [presenter] A server is reachable again after { $away }.
       *[status] { $server } is reachable again after { $away }
    }
alarms-server-lost =
    { $reader ->
        [overview] No data from Redis at { $address }: { $count ->
                [one] the state of partition { $numbers } is
               *[other] the states of partitions { $numbers } are
            } unknown. Retrying: { $reason }.
        [presenter] A Redis server is unreachable: some figures are unknown.
       *[status] { $error }
    }
alarms-unwitnessed =
    { $reader ->
        [overview] { $what }.  Press { KEY("ledger") } for the audit.
        [presenter] Redis restarted while no node lived; admissions may be missing.
       *[status] { $what }; compare the buyers' order IDs with 'seckill orders show'
    }
alarms-sql-away =
    { $reader ->
        [overview] The database is unreachable; orders wait in the stream: { $reason }.
        [presenter] The database is unreachable: orders wait.
       *[status] { $error }
    }
alarms-sql-locked =
    { $reader ->
        [overview] { $waiting ->
                [0] The database is locked by another program; orders wait in the stream until the lock is released.
                [one] entry waits: the database is locked by another program. Writing resumes once it releases the lock.
               *[other] entries wait: the database is locked by another program. Writing resumes once it releases the lock.
            }
        [presenter] The database is locked by another program: orders wait.
       *[status] { $error }{ $waiting ->
                [0] {""}
                [one] ; 1 entry waits for it
               *[other] ; { $waiting } entries wait for it
            }
    }
alarms-sql-read-only =
    { $reader ->
        [overview] The database rejects writes; orders wait in the stream: { $reason }.
        [presenter] The database rejects writes: orders wait.
       *[status] { $error }
    }
alarms-unconfirmed =
    { $reader ->
        [overview] No buyer gets a reply: { $state ->
                [unknown] Redis does not say which replicas have an order ({ $reason }).
               *[few] only { $replicas } of { $wanted } replicas confirm orders. Connect replicas, or lower engine.wait_replicas.
            }
        [presenter] Redis cannot confirm orders: buyers wait.
       *[status] { $state ->
                [unknown] Redis does not say which replicas have an order, so no buyer gets a reply; allow its user to run WAIT, or set engine.wait_replicas to 0 ({ $error })
               *[few] only { $replicas } of { $wanted } replicas confirm orders, so no buyer gets a reply; connect replicas, or lower engine.wait_replicas
            }
    }
alarms-undelivered =
    { $reader ->
        [overview] { $sales }: changed in SQL but not confirmed by Redis, which still uses the old version. A running node delivers the change once Redis accepts writes.
        [presenter] A change of a sale has not reached Redis.
       *[status] { $count ->
                [one] 1 change of a sale is
               *[other] { $count } changes of sales are
            } in SQL and not yet in Redis: { $sales }; a running node delivers changes once Redis accepts writes
    }
alarms-zones-differ =
    { $reader ->
        [overview] Nodes want different time zones for jobs: { $zones }. Set one engine.jobs.time_zone.
        [presenter] Nodes want different time zones.
       *[status] nodes want different time zones: { $zones }; jobs are due by that of the node that started last; set one engine.jobs.time_zone on all nodes
    }

## ask

ask-apply-plan =
    { $entries }
    { $verdicts }
    Then: { $pending } pending, { $letters ->
        [one] { $letters } dead letter
       *[other] { $letters } dead letters
    }, { $orders ->
        [one] { $orders } order
       *[other] { $orders } orders
    } in SQL.{ $rebuilt ->
        [0] {""}
       *[other] {" "}Orders re-added to the stream, to be written next: { $rebuilt }.
    }
    .title = Apply this plan?
    .button = Apply
ask-cancel-launch =
    { $launch }
    No sale starts and no requests are sent. The countdown continues until you confirm.
    .title = Cancel the launch?
    .button = Cancel launch
ask-claim =
    { $count ->
        [one] { $count } pending entry is
       *[other] { $count } pending entries are
    } transferred to another consumer.
    { $parts }
    { $gone ->
        [0] {""}
       *[other] { $gone } no longer pending, or already held by that consumer.
    }
    The delivery count is unchanged. The new holder processes the entries within seconds; entries already in SQL are acknowledged.
    .title = Transfer these entries?
    .button = Claim
ask-compensate-letters =
    { $about }: { $done } will be deleted permanently{ $stay ->
        [0] {""}
        [one] , 1 is kept
       *[other] , { $stay } are kept
    }.
    { $verdicts }
    { $orders ->
        [one] 1 order is cancelled and the stock is returned. This cannot be undone.
       *[other] { $orders } orders are cancelled and the stock is returned. This cannot be undone.
    }
    .title = Cancel the orders and return the stock?
    .button = Return stock
ask-create-sale =
    { $title }
    { $stock ->
        [one] { $stock } piece
       *[other] { $stock } pieces
    }; limit per user: { $limit ->
        [one] { $limit } order
       *[other] { $limit } orders
    }{ $shards ->
        [1] {""}
       *[other] ; over { $shards } shards
    }.
    { $begin ->
        [none] Opens immediately.
       *[other] Opens: { $begin }.
    }
    { $end ->
        [none] No end time.
       *[other] Ends: { $end }.
    }
    .title = Create this sale?
    .button = Create
ask-discard-letters =
    { $about }: { $done } will be deleted permanently{ $stay ->
        [0] {""}
        [one] , 1 is kept
       *[other] , { $stay } are kept
    }.
    { $verdicts }
    This cannot be undone.
    .title = Discard them?
    .button = Discard
ask-end-sale =
    { $name }
    { $left } unsold; buyers are rejected from now on.
    This cannot be undone.
    .title = End the sale permanently?
    .button = End
ask-launch-now =
    Now, without waiting for the countdown:
    { $events }
    .title = Launch now?
    .button = Launch
ask-load-test =
    { $name }
    { $plan }
    { $phase ->
        [running] { $left } left. The orders are real and consume stock.
        [sold_out] No stock left: every buyer is rejected as sold out.
        [paused] The sale is paused: every buyer will be rejected.
        [planned] The sale has not started: buyers will be rejected.
       *[other] The sale has ended: every buyer will be rejected.
    }
    .title = Start the load test?
    .button = Start
ask-pause-job =
    { $name }
    No node runs it until it is resumed.
    .title = Pause the job?
    .button = Pause
ask-pause-sale =
    { $name }
    { $left } left. Buyers are rejected until it resumes; admitted orders are still written.
    .title = Pause the sale?
    .button = Pause
ask-pay-order =
    Order { $id }
    { $buyer }
    Unpaid since { $written }. Once paid, it is no longer closed as overdue; this cannot be undone here.
    .title = Pay the order?
    .button = Pay
ask-quit-during-command =
    { $action }: { $done } of { $planned } done.
    The current batch is completed, the rest is unchanged; a new plan covers it.
    .title = Quit while a command is running?
    .button = Quit
ask-quit-during-launch =
    { $launch }
    The launch is cancelled: nothing is started.
    .title = Quit while a launch is scheduled?
    .button = Quit
ask-quit-during-load-test =
    { $sent } of { $planned ->
        [one] { $planned } request
       *[other] { $planned } requests
    } sent.
    { $unsent ->
        [0] Admitted orders stay in the stream; the next running node writes them.
       *[other] The remaining requests are not sent. Admitted orders stay in the stream; the next running node writes them.
    }
    .title = Quit while a load test is running?
    .button = Quit
ask-release-lock =
    { $held }
    { $holder ->
        [orphan] Its holder { $node } sends no heartbeat.
        [alive] Its holder { $node } is alive: its work is cancelled and its late writes are rejected.
       *[unknown] Its holder { $node } is not a known node and may be active: its work is cancelled and its late writes are rejected.
    }
    { $waiting ->
        [0] No waiters.
        [one] { $waiting } waiter, which will acquire it next.
       *[other] { $waiting } waiters, one of which will acquire it next.
    }
    .title = Force-release the lock?
    .button = Release
ask-remove-consumer =
    { $name }
    Its node is not running and it holds no entries. It is removed from { $groups ->
        [one] the group of { $groups } partition
       *[other] the groups of { $groups } partitions
    }.
    .title = Remove the consumer?
    .button = Remove
ask-repair-ledger =
    { $scope ->
        [none] {""}
        [marked] { $sales ->
            [one] 1 marked sale
           *[other] { $sales } marked sales
        }, { $found ->
            [one] 1 difference
           *[other] { $found } differences
        }: { $named }
       *[other] { $sales ->
            [one] 1 sale
           *[other] { $sales } sales
        }, { $found ->
            [one] 1 difference
           *[other] { $found } differences
        }: { $named }
    }
    { $repairs }
    { $faults ->
        [0] {""}
        [one] 1 partition fault is also repaired.
       *[other] { $faults } partition faults are also repaired.
    }
    { $left ->
        [0] {""}
        [one] Not repaired: 1 difference; see the details.
       *[other] Not repaired: { $left } differences; see the details.
    }
    { $pauses ->
        [true] A sale admits no buyers while it is reconciled; other sales continue.
       *[false] {""}
    }
    .title = Repair the ledger?
    .button = Repair
ask-replay-letters =
    { $about }: { $done ->
        [one] 1 goes back into the order stream
       *[other] { $done } go back into the order stream
    }{ $stay ->
        [0] {""}
        [one] , 1 is kept
       *[other] , { $stay } are kept
    }.
    { $verdicts }
    The engine tries to write their orders again.
    .title = Replay them?
    .button = Replay
ask-restock =
    { $name }
    { $change ->
        [adds] Adds { $pieces } pieces:
       *[removes] Removes { $pieces } unsold pieces:
    } initial stock { $initial } → { $after }.
    { $left } unsold now.
    .title = Change the stock?
    .button = Change
ask-resume-job =
    { $name }
    The job resumes its schedule; missed runs are skipped.
    .title = Resume the job?
    .button = Resume
ask-resume-sale =
    { $name }
    { $left } available again within its sale window.
    .title = Resume the sale?
    .button = Resume
ask-rewind =
    { $entries }
    { $groups }
    { $counts }
    .title = Rewind the group?
    .button = Rewind
ask-run-job =
    { $name }
    Purpose: { $about }.
    It runs now on this node, unless it is already running on another node.
    .title = Run the job now?
    .button = Run
ask-schedule-launch =
    { $seconds } s after you confirm, by Redis time:
    { $events }
    Until then nothing is changed; press { KEY("abort") } to cancel.
    .title = Schedule this launch?
    .button = Schedule
ask-start-sale =
    { $name }
    { $left } available immediately, before the planned start.
    .title = Start the sale now?
    .button = Start
ask-stop-command =
    { $action }: { $done } of { $planned }.
    The current batch is completed and finished work is kept. A new plan covers the rest.
    .title = Stop this command?
    .button = Stop
ask-stop-load-test =
    { $name }
    { $sent } of { $planned ->
        [one] { $planned } request
       *[other] { $planned } requests
    } sent; no more are sent.
    Admitted orders are still written.
    .title = Stop the load test?
    .button = Stop
ask-stop-load-test-and-pause =
    { $name }
    { $sent } of { $planned ->
        [one] { $planned } request
       *[other] { $planned } requests
    } sent; no more are sent.
    The sale is paused: buyers are rejected until it resumes.
    Admitted orders are still written.
    .title = Stop the load test and pause the sale?
    .button = Stop

## attach

ask-suspend =
    Its node stops as well: its buyers get no answer, and what it holds waits until other nodes take it over, or until 'fg'.
    .title = Suspend the console?
    .button = Suspend
attach-alone = only the attached service is shown here; press { KEY("quit") } to quit, and run 'seckill' for the console
attach-back-archived = sale #{ $voucher } of the engine is archived: it has gone back already, or has left Redis after its end
attach-back-ask = End sale #{ $voucher } "{ $title }" in the engine for good, and move it back to the service with { $stock } pieces left and orders of { $live } buyers?
attach-back-before = Sale #{ $voucher } has gone back to the service before. Nothing was changed.
attach-back-changed = statuses to update
attach-back-conflict = orders that the service has changed since the sale moved: { $count }, the first { $order }. Decide which side is right and correct the other: 'seckill orders pay', or the status in the table of the service
attach-back-entries = entries of the sale in the stream of the service: { $count }, the first { $entry }. Recover them first
attach-back-foreign = sale #{ $voucher } did not come from this service, or has gone back already
attach-back-in-flight = orders in flight in the engine: { $entries }, dead letters: { $dead }. Let the consumers finish, and replay or discard the dead letters
attach-back-limit = users with several live orders: { $count }, for example { $user }. The set of the service holds one for each user
attach-back-missing = orders to insert
attach-back-moving = the service changed its stock or orders of the sale while they were written. Run the command again
attach-back-returning = closed orders whose piece Redis does not have yet: { $orders }. Repeat in a moment
attach-back-running = sale #{ $voucher } is running in the engine; pause or end it first
attach-back-taken = order IDs that belong to other users in the table of the service: { $count }, the first { $order }
attach-back-unclosed = closed orders that are live in the table of the service: { $count }, the first { $order }. The profile has no status for them; set order.status and order.closed
attach-back-unfinished = sale #{ $voucher } has not moved to the engine completely; run 'seckill attach migrate' without --back first
attach-back-unknown = orders in the table of the service that the engine does not have: { $count }, the first { $order }
attach-between = Sale #{ $voucher } is on sale neither in the service nor in an engine ({ $key }): its migration is running or was interrupted. If it does not finish, run the same migration again to complete or undo it.
attach-body-gone = it was trimmed or deleted before it was acknowledged
attach-buyers-with-closed-order =
    Sale #{ $voucher }: { $users ->
        [one] 1 buyer has
       *[other] { $users } buyers have
    } only closed orders in SQL, and no entry in flight (user { $user }). If they bought again, the service may have acknowledged their new order without writing it: recovery writes it if its entry is still in the stream. Otherwise the service has not returned their piece to Redis. It is not sold again until they are removed from the buyers.
attach-buyers-without-order =
    Sale #{ $voucher }: { $users ->
        [one] 1 buyer has
       *[other] { $users } buyers have
    } neither an order in SQL nor an entry in flight (user { $user }). Recovery writes the orders whose entries are still in the stream and were not given up before. Write the others, or remove the users from the buyers and return the stock.
attach-cannot-read-profile = cannot read the profile { $path } ({ $why }); check --profile
attach-cluster = Redis is a cluster, but the keys of these services are in several slots; connect to the server that the service uses
attach-column-buyers = buyers
attach-column-closed = only closed
attach-column-in-flight = in flight
attach-column-no-buyer = no buyer
attach-column-no-order = no order
attach-column-orders-per-second = orders/s
attach-commit-unknown = the database did not confirm the commit ({ $reason }): whether it was done is unknown. Run the command again: it looks in SQL first, and repeats nothing that is there
attach-correct-buyers = check which set the service uses, and correct keys.buyers in the profile
attach-correct-column = correct the column in the profile, or restore it
attach-correct-dates = correct sale.begin and sale.end in the profile
attach-correct-fields = correct [entry] in the profile, or remove the entry if the service did not write it
attach-correct-group = correct stream.group in the profile
attach-correct-key = check which program writes this key, or correct its name in the profile
attach-correct-table = correct [tables] in the profile, or pass the --database that the service uses
attach-counter = { $key }, expires
attach-counter-alarm = Counter { $key } of order IDs never expires: one key remains for each day. Set a TTL.
attach-counter-stays = { $key } never expires: one key remains for each day
attach-create-group = XGROUP CREATE { $key } { $group } 0
attach-database-locked = the database is locked by another program ('fuser FILE' finds it). Run the command again when the lock is released
attach-dead-letters = { $count ->
        [one] 1 dead letter waits
       *[other] { $count } dead letters wait
    } in { $stream }. List them with 'seckill attach recover --dead-letters', remove the cause, and replay each with '--replay LETTER --operate'. Remove with XDEL those that cannot be replayed.
attach-dead-letters-unread = The dead letters of recoveries are unknown: the user of --redis may not read { $stream }.
attach-duplicate-orders =
    Sale #{ $voucher }: { $users ->
        [one] 1 user has
       *[other] { $users } users have
    } several live orders. Cancel all but one, and add a unique index on user and voucher.
attach-entries = { $count ->
    [one] 1 entry read, its fields are valid
   *[other] { $count } entries read, their fields are valid
}
attach-every-without-screen = --every belongs to the screen; omit it, or the subcommand
attach-first-locks = Only the first { $count } locks are read; there may be more.
attach-foreign-key = Key { $key } has the wrong type ({ $holds }): the service fails on it. Check which program writes it.
attach-future-ids = Order ID { $order } has a time that is { $minutes } minutes in the future: the service takes local time for UTC, or its clock or the epoch of its IDs is wrong. Use UTC and the right epoch; before the correction, check that new IDs do not repeat existing ones.
attach-group = { $group }
attach-group-lost = the consumer group of the service is missing, with its pending entries. Run 'seckill attach recover': it creates the group before the first entry without an order
attach-group-missing = group { $group } does not exist: no entry is delivered
attach-head-admitted = ADMITTED/S
attach-head-closed = CLOSED
attach-head-kind = KIND
attach-head-no-buyer = NO BUYER
attach-head-no-order = NO ORDER
attach-head-orders = ORDERS
attach-holds-other = key { $key } has the wrong type ({ $holds }): it cannot be read
attach-idle-consumers = { $count } consumers of the group have no pending entries and have been idle for long, for example { $consumer } for { $minutes ->
        [0] { $seconds } s
        [one] 1 minute
       *[other] { $minutes } minutes
    }: the service probably takes a new name at each start. Give each instance a fixed name, and remove the dead ones with XGROUP DELCONSUMER.
attach-invalid-profile = invalid profile { $path }: { $why }
attach-key-without-part = { $key } must contain { $part } once
attach-lag = Undelivered entries have waited for { $seconds } s{ $lag ->
        [0] .
       *[other] {" "}(lag { $lag }).
    } Check whether the consumers run, and whether they keep up.
attach-letter-ask = Add the body of dead letter { $letter } to the stream of the service again?
attach-letter-changed = dead letter { $letter } was not added: users keep buying, so it cannot be checked that its user has no other entry. Try again when fewer do
attach-letter-entry = dead letter { $letter } was not added: user { $user } has another entry of sale #{ $voucher } in flight ({ $entry }), and one piece. Let it be processed first
attach-letter-fault = dead letter { $letter } was not added: { $reason }
attach-letter-missing = there is no dead letter { $letter } of stream { $stream } that can be replayed; list them with --dead-letters
attach-letter-more = dead letter { $letter } was not added: more entries are in flight than one run reads, and one of them may be of its user. Let the consumers finish first
attach-letter-moved = sale #{ $voucher } of dead letter { $letter } moves or has moved to an engine: the service must not process it. Move the sale back first
attach-letter-no-body = dead letter { $letter } has no body: it was trimmed or deleted before, and cannot be replayed
attach-letter-replayed = Dead letter { $letter } is entry { $entry } of the stream again. A consumer of the service processes it, or the next recovery.
attach-letter-sold-out = dead letter { $letter } was not added: user { $user } is no buyer of sale #{ $voucher } any more, and no piece is left in Redis. Add stock, or remove the letter with XDEL
attach-letter-unreadable = dead letter { $letter } has no readable order, user or sale: it yields no order. Correct the order by hand, and remove the letter with XDEL
attach-letter-written = order { $order } of dead letter { $letter } is in SQL. Remove the letter: XDEL { $stream } { $letter }
attach-letters-more = There are more; raise --max.
attach-limits-before = --stuck, --compare and --entries before a subcommand belong to the screen; put them after status, or omit the subcommand
attach-local-ids = The time in order IDs such as { $order } differs by { $hours } hours from the time of their entries: the service takes local time for UTC. IDs can repeat when the zone or its offset changes. Use UTC.
attach-locks = { $pattern }: { $hashes } of Redisson, { $strings } plain
attach-memory-queue = the profile has no stream: orders wait in the memory of the service and cannot be seen
attach-more-buyers = Buyers and orders of sale #{ $voucher } are not compared: it has more than the { $compared } buyers that a pass reads. Raise --compare.
attach-more-entries = Buyers are not compared: more than { $entries } entries are undelivered or pending. Raise --entries.
attach-more-keys = Not all locks were found yet: --watch examines further keys in each pass.
attach-more-orders = Buyers and orders are not compared: there are more than the { $compared } orders that a pass reads. Raise --compare.
attach-move-again = sale #{ $voucher } has moved to this engine before and has gone back, and its database still has the orders of that time. Name an engine with another database
attach-move-aside = entries of the sale that a recovery has given up, without another order of their users: { $count }, the first { $letter }. Settle them first, or pass --leave-out
attach-move-ask = Move sale #{ $voucher } "{ $title }" to the engine, with { $stock } of { $initial } pieces left? The service cannot sell it any more.
attach-move-before = Sale #{ $voucher } has moved to the engine before. Nothing was changed.
attach-move-carried = { $payments ->
    [one] 1 payment that the service has taken since was
   *[other] { $payments } payments that the service has taken since were
} recorded in the engine.
attach-move-changed = the sale changed while it was prepared: the service still sells it, or its consumers run. Its stock key has its name, and nothing has moved. Stop the service, and run the command again
attach-move-closed = closed orders: { $count }, the first { $order }. Their pieces may be sold already; remove these rows or correct their status first
attach-move-consumer = consumer { $consumer } asked for entries { $seconds } s ago. Stop the consumers of the service, or adjust --quiet
attach-move-elsewhere = key { $key } says that the sale has moved to another engine. Name the servers of that engine
attach-move-engine = engine
attach-move-exists = voucher #{ $voucher } exists in the database of the engine already
attach-move-fenced = an interrupted run has stopped sale #{ $voucher }: neither side sells it. Run the command without --dry-run, which completes or undoes the migration
attach-move-former = voucher ID { $voucher } was that of a shard of sale #{ $sale } in an earlier version of the engine, whose entries may still name it: the sale cannot be moved under this ID; sell it under another voucher ID
attach-move-groups = other groups read stream { $stream }: { $names }. The migration deletes the entries of the sale, which they would miss; stop their programs and destroy the groups first
attach-move-initial = the service states an initial stock of { $stated }, but stock and live orders in SQL are { $initial }
attach-move-interrupted = { $why }. Sale #{ $voucher } may be stopped on both sides: run the command again, which completes or undoes the migration
attach-move-keys = the Redis of the engine has keys of sale #{ $voucher } already ({ $key }): a node may sell it. Use the database that belongs to this Redis
attach-move-lost = key { $key } says that sale #{ $voucher } has moved to this engine, but its database does not have it: was it restored from a backup? Restore the sale there, or delete the key if the service is to sell it again
attach-move-memory = the profile has no stream: orders may wait in the memory of the service, where they cannot be seen. Stop the service, and pass --service-stopped
attach-move-no-clients = the user of --redis may not run CLIENT LIST or INFO, which show clients that read with XREADGROUP. Stop the service and pass --service-stopped, or permit the commands
attach-move-no-mark = key { $key } shows that the sale was moving, and the engine has a sale with its ID, but key { $mark } is missing: whether they are the same is unknown. Compare both, and delete the stock of the side that must not sell it
attach-move-no-order = buyers without order and entry: { $count }, for example user { $user }. Recover their orders first, or pass --leave-out: their pieces are on sale again
attach-move-no-sale = the service has no sale #{ $voucher } in SQL
attach-move-no-time = { $count ->
    [one] 1 order has
   *[other] { $count } orders have
} no time of creation: the engine stores that of the migration, so an unpaid one is closed a whole deadline later.
attach-move-not-loaded = sale #{ $voucher } has no stock in Redis ({ $key }): what is left is unknown. Load the stock first, unless another engine has the sale: Redis may have lost the mark of that move
attach-move-not-proved = { $matching } of { $orders } orders are on the other side{ $differing ->
    [0] {""}
   *[other] ; another status: { $differing }
}{ $stock_matches ->
    [true] {""}
   *[false] ; the stock differs
}. Nothing was cleaned up; compare both sides, and run the command again.
attach-move-number = values that are no ID for the engine: { $count }, the first { $value }
attach-move-oversold = the sale is oversold: { $sold } orders of { $initial } pieces
attach-move-overtaken = another run of 'seckill attach migrate' for sale #{ $voucher } has begun meanwhile, or its keys were changed. Run the command again
attach-move-possible = Nothing prevents the migration. Nothing was changed.
attach-move-progress = entries were delivered or acknowledged within a second: a consumer is running. Stop the consumers of the service
attach-move-proved = The sale has moved: { $matching } of { $orders } orders are on the other side, for the same users and under the same IDs.
attach-move-read = a client reads entries with XREADGROUP now and then. Stop the consumers of the service; if it belongs to another service, pass --service-stopped
attach-move-replica = the database of the service is a replica, which may lag behind, and the primary does not get what is written to it. Name the primary with --database; on a server that has been promoted, remove its source first (RESET REPLICA ALL)
attach-move-read-only = the database of the service takes no writes ({ $setting } is { $value }): a replica may lag behind, and orders or payments would be lost. Name the primary with --database
attach-move-reads = the client at { $address } reads entries with XREADGROUP. Stop the consumers of the service; if it belongs to another service, pass --service-stopped
attach-move-recovery = a recovery of the stream is running; wait until it has finished
attach-move-refused = The sale was not moved.
attach-move-reloaded = key { $key } exists although the sale has moved or is moving: the service has loaded its stock again. Stop the service, delete the key, and run the command again
attach-move-returning = sale #{ $voucher } is on its way back to the service: complete that first, with 'seckill attach migrate --back'
attach-move-same-database = the database of the service belongs to an engine: both sides must have their own
attach-move-same-id = order IDs of two users: { $count }, the first { $order }
attach-move-same-keys = the profile names key { $key }, which belongs to the engine
attach-move-service = service
attach-move-several = users with several orders: { $count }, for example { $user }. Keep one of each first
attach-move-status = orders with a status that the engine does not have: { $count }, for example { $status }
attach-move-stock = the stock does not match: { $stock } pieces and { $buyers } buyers in Redis, { $sql_stock } pieces and { $orders } live orders in SQL. Correct it first
attach-move-stray = entries of users who are not in the set of buyers: { $count }, the first { $entry }. Recover them first
attach-move-taken = order IDs that exist in the database of the engine: { $count }, the first { $order }
attach-move-too-many = the sale has more than { $most } buyers or entries
attach-move-unfinished = sale #{ $voucher } is in the engine, but the service has not been cleaned up; run the command without --dry-run
attach-move-unmarked = whether sale #{ $voucher } has moved to this engine is unknown: the engine has a sale with its ID, and Redis has neither a stock ({ $key }) nor the mark ({ $mark }), which it may have lost. Do not load the stock. Compare the orders of the sale in both databases by ID (tb_voucher_order): if the engine has those of the service, the sale has moved. Then restore the mark (SET { $mark } '{ $value }'), and run the command again. If not, the engine has another sale with this ID: delete that one, or name another engine
attach-move-unread-orders = table { $table } has order IDs that the engine cannot represent
attach-move-unreadable = entries in flight that cannot be read: { $count }, the first { $entry }. They may be orders; recover or remove them first
attach-moved-loaded = Sale #{ $voucher } is marked as moved to an engine, but the service has its stock in Redis ({ $key }): both may sell it. Stop the service, and run the 'seckill attach migrate' of this sale again with --dry-run: it names the next step.
attach-no-buyers = no sale has a set { $key }: no order yet, or keys.buyers of the profile is wrong
attach-no-column = columns missing from table { $table }: { $columns }
attach-no-counter = { $key } does not exist: no order today, or another counter
attach-no-dates = sale #{ $voucher } has no readable dates: whether it runs is unknown
attach-no-entries = the stream is empty: fields were not compared
attach-no-field = it lacks the field { $name }
attach-no-file = there is no file { $path }; correct --database
attach-no-group = Group { $group } of stream { $stream } does not exist, and { $length ->
        [one] 1 entry is
       *[other] { $length } entries are
    } not delivered. Create it: XGROUP CREATE { $stream } { $group } 0
attach-no-group-name = stream.group is empty; name the group, or leave stream.key empty too
attach-no-initial = the profile names no column of it: overselling is detected only by a negative stock, and a piece that was returned twice on both sides is not detected
attach-no-lease = { $count ->
        [one] Lock { $key } has
       *[other] { $count } locks, such as { $key }, have
    } no lease: a holder that dies keeps it forever. Check the holder, then delete the key.
attach-no-lock-key = the profile has no lock
attach-no-locks = no lock { $pattern } is held now (an order holds one only for milliseconds): the kind of lock is unknown
attach-no-number = the field { $name } is not a number
attach-no-optional = columns missing from table { $table }: { $columns }. A migration cannot carry over their values, and without order.paid, paid orders that were closed are not found
attach-no-sales = no sale: values were not compared
attach-no-scratch = cannot create a temporary directory in { $path } ({ $error })
attach-no-servers = name the servers of the service with --redis and --database
attach-no-stock = no key { $pattern }: no sale is loaded, or keys.stock of the profile is wrong
attach-no-stock-yet = no key { $pattern } among { $keys } keys examined
attach-no-stream = { $key } does not exist: no order yet, or orders wait in the memory of the service, where they cannot be seen (--profile 002)
attach-no-table = table { $table } does not exist
attach-no-user-id = set { $key } contains { $member }, which is not a user ID: buyers and orders cannot be compared
attach-not-a-number = column { $column } contains { $value }, which is not an integer
attach-not-loaded = Sale #{ $voucher } is running, but has no stock in Redis ({ $key }): no user can buy. Whether it has moved to an engine is unknown. Before loading the stock, run 'seckill attach recover': it explains how to find out.
attach-not-released = { $count ->
        [one] Lock { $key } was not released
       *[other] { $count } locks, such as { $key }, were not released
    }, although an order takes milliseconds; { $seconds } s of the lease are left. Restart the holder if it runs; if it died, wait, or delete the key.
attach-not-trimmed = Stream { $stream } has { $acknowledged } acknowledged entries, and none was ever removed: it fills the memory of Redis. Trim it with XTRIM MINID, below the oldest pending entry.
attach-order-ids-differ =
    Sale #{ $voucher }: { $users ->
        [one] 1 user has an order
       *[other] { $users } users have orders
    } in SQL under another ID than in the stream (user { $user }, entry { $entry }): either the service makes two IDs for one purchase, and the ID that the buyer was given does not exist, or it rejected a second purchase. Store the order under the ID of its entry.
attach-orders-without-buyer =
    Sale #{ $voucher }: { $users ->
        [one] 1 user has an order in SQL but is
       *[other] { $users } users have an order in SQL but are
    } not among the buyers in Redis (user { $user }): they can buy again. Add them to the buyers.
attach-other-fields = entry { $entry }: { $why }; its fields are { $names }
attach-other-groups = group { $group } does not exist, the stream has { $names }
attach-other-profile = { $key } exists, as in the profile { $profile }: pass --profile { $profile }, or correct { $setting } in the profile
attach-outside-dates = Sale #{ $voucher }: { $count ->
        [one] 1 order was
       *[other] { $count } of the newest orders were
    } admitted before its begin or after its end (entry { $entry }): the script does not check the dates. Remove the stock from Redis while it does not run, and check time_zone of the profile.
attach-oversold = Sale #{ $voucher } is oversold: its stock is { $stock }. Correct it; pause it first if it runs.
attach-oversold-orders = Sale #{ $voucher } is oversold: { $orders } live orders of { $initial } pieces. Cancel the excess orders; pause it first if it runs.
attach-paid-closed =
    Sale #{ $voucher }: { $orders ->
        [one] 1 order was paid and is
       *[other] { $orders } orders were paid and are
    } closed as unpaid (order { $order }): the job that closes orders does not check the status. Refund or reopen { $orders ->
        [one] it
       *[other] them
    }, and let the job close only unpaid orders.
attach-phase-moved = moved
attach-phase-unknown = Sale #{ $voucher } has no readable dates: whether it runs is unknown, and orders outside them are not found.
attach-pieces-differ = Sale #{ $voucher }: stock and buyers in Redis add up to { $in_redis }, stock and live orders in SQL to { $in_sql }. A closed order has returned its piece twice or never. Compare closed orders, and correct the stock.
attach-pieces-initial = Sale #{ $voucher }: stock and live orders in SQL add up to { $in_sql }, but the initial stock is { $initial }. A closed order has returned its piece twice or never. Correct the stock.
attach-poison = { $count ->
        [one] 1 entry is poison:
       *[other] { $count } entries are poison, the oldest is
    } { $entry }: { $why }. 'seckill attach recover --operate' copies { $count ->
        [one] it
       *[other] them
    } to the dead letters.
attach-poison-gone = { $count ->
        [one] 1 entry is poison:
       *[other] { $count } entries are poison, the oldest is
    } { $entry }: it was trimmed or deleted before it was acknowledged. 'seckill attach recover --operate' copies { $count ->
        [one] it
       *[other] them
    } to the dead letters; an order that SQL does not have is lost.
attach-replica = the database is a replica, which may lag behind: what it has written last is missing here
attach-replica-fix = name the primary with --database; on a server that has been promoted, remove its source (RESET REPLICA ALL)
attach-replica-read = The database is a replica, which may lag behind: a difference may be an order that it has not received yet. Name the primary with --database.
attach-replica-unknown = Whether the database is a replica, which may lag behind, is unknown: its user may not run SHOW REPLICA STATUS. Name the primary with --database.
attach-recover-acknowledged = acknowledged: their order was in SQL
attach-recover-ask = { $entries ->
    [0] Apply this plan?
    [one] Apply this plan to 1 entry, and rebuild buyers and stock as shown?
   *[other] Apply this plan to { $entries } entries, and rebuild buyers and stock as shown?
}
attach-recover-busy = { $holder } is recovering this service, since { $held } s; its lock ends in { $left } s unless it is renewed. Wait for it; if its process has died, until then
attach-recover-buyers = buyers without an order or entry
attach-recover-buyers-added = buyers added
attach-recover-buyers-removed = buyers removed
attach-recover-buyers-skipped = buyers not added: they have no live order any more, or their sale was loaded again; plan again
attach-recover-changed = left: their consumer has processed or received them again, or their sale is moving
attach-recover-closed = buyers with only closed orders
attach-recover-columns = an order cannot be written: table { $table } needs values for { $columns }, which have no default; nothing was changed
attach-recover-counts = { $replays } to process, { $written } to acknowledge, { $dead } to copy to the dead letters.
attach-recover-cut = Interrupted by a signal; run the command again for the rest.
attach-recover-dead = copied to the dead letters
attach-recover-done = Applied:
attach-recover-doubled = users with several live orders
attach-recover-group = Group { $group } of stream { $stream } is missing and will be created after entry { $start }.{ $again ->
    [0] {""}
    [one] {" "}1 entry after that has an order already; the service's consumers receive it again.
   *[other] {" "}{ $again } entries after that have an order already; the service's consumers receive them again.
}
attach-recover-group-created = group created
attach-recover-has-stream = --service-stopped is for a profile without a stream; omit it
attach-recover-held = { $entries ->
    [one] 1 entry is
   *[other] { $entries } entries are
} in flight and not stuck: left alone.
attach-recover-later = the database did not process the order of entry { $entry }{ $entries ->
    [one] {""}
   *[other] {" "}and of other entries
}, although it accepts others: { $why }. Nothing was given up; run the command again
attach-recover-left = not processed yet: run the command again
attach-recover-letter = dead letter { $letter }
attach-recover-lock-lost = the lock of this recovery was lost, so it has stopped; run it again
attach-recover-locked = left: the lock of their user is held, or was lost before the commit; run the command again after its release
attach-recover-log = the log { $path } cannot be written ({ $why }), so nothing more was changed; correct it or pass --data-dir
attach-recover-lost = stream { $key } does not exist: no order yet, or orders wait in the memory of the service (--profile 002); if Redis has lost it, run XGROUP CREATE { $key } { $group } 0 MKSTREAM first
attach-recover-maybe-moved = Sale #{ $voucher } has neither a stock ({ $key }) nor the mark of a migration ({ $key }:moved) in Redis. Whether it has moved to an engine is unknown, as Redis may have lost the mark, so no stock is loaded and no order written: it could be on sale on both sides. It has moved if the engine has it: run 'seckill sale show { $voucher }' with the --redis and --database of each engine. If none has it, pass --not-moved.
attach-recover-memory = The profile has no stream: orders that wait in the memory of the service cannot be seen. The plan is valid only after the service has stopped.
attach-recover-most = This run processes { $max } of { $planned } entries (--max). Run the command again for the rest.
attach-recover-moved = { $entries ->
    [one] 1 entry in flight is of a sale that has
   *[other] { $entries } entries in flight are of sales that have
} moved to an engine: left alone.
attach-recover-next = Apply it: the same command with --operate
attach-recover-no-buyers = Buyers and orders are not compared for every sale: there are more than one pass reads, or a key has the wrong type.
attach-recover-no-stock = The stock in Redis is not compared: users are buying, or more entries are in flight than one plan reads.
attach-recover-not-buyers = { $entries ->
    [one] 1 entry in flight is
   *[other] { $entries } entries in flight are
} of a user who is no buyer in Redis: the service has given the piece back, or Redis has lost the buyer. Which of the two is unknown, so nothing is written. If it was given back: XACK { $stream } { $group } ENTRY, or XDEL { $stream } ENTRY if it was never delivered. If not: SADD the user to the buyers ({ $buyers }). Then run the command again.
attach-recover-not-counted = not counted
attach-recover-not-promised = left: the service has given their pieces back since the plan; plan again
attach-recover-nothing = Nothing to recover.
attach-recover-orders = live orders without a buyer
attach-recover-oversold = oversold sales
attach-recover-passed = passed by the group
attach-recover-proof = What is left, counted again:
attach-recover-redis-stock = Redis stock
attach-recover-rejects = the database accepts no order of sale #{ $voucher }{ $sales ->
    [one] {""}
   *[other] {" "}and of other sales
}: { $why }. Nothing was given up, and their entries wait for the next run. Correct the database, then run the command again
attach-recover-replayed = orders written
attach-recover-sale-stale = The plan is stale: sale #{ $voucher } has changed since, so its stock was not set, and not all of its buyers were removed. Plan again.
attach-recover-stock-differs = sales whose stock differs
attach-recover-stocks = stocks set in Redis
attach-recover-stuck = stuck entries
attach-recover-unique = a unique key rejects it, and the user has no live order
attach-recover-unwritable = { $entries ->
        [one] 1 entry that the group has passed cannot
       *[other] { $entries } entries that the group has passed cannot
    } become an order. Remove the cause and run the command again, or give their pieces up with --remove-buyers:
attach-recover-waits = A stock is raised, and a buyer removed, only after nothing of the sale has moved for { $seconds } s (--stuck).
attach-redelivered = { $count ->
        [one] Entry { $entry } was
       *[other] { $count } entries, the oldest { $entry }, were
    } delivered { $deliveries } times and not acknowledged. Find the error in the log of the service; acknowledge it only if it can never succeed.
attach-sales = { $count ->
    [one] 1 sale read, its values are valid
   *[other] { $count } sales read, their values are valid
}
attach-schema = the tables differ from the profile ({ $reason }); run 'seckill attach doctor' with the same options
attach-screen-alarms = { $count ->
    [0] no alarms
    [one] 1 alarm
   *[other] { $count } alarms
}
attach-screen-consumers = { $count ->
    [one] 1 consumer
   *[other] { $count } consumers
}
attach-screen-cost = { $line }: { $commands } Redis commands, { $rows ->
    [one] 1 row
   *[other] { $rows } rows
}
attach-screen-failed = { $why }; trying again every { $seconds } s
attach-screen-first-locks = only the first { $held } are read
attach-screen-json = the screen has no JSON; use seckill attach status --json
attach-screen-length = length
attach-screen-order = alarms are always in order of urgency
attach-screen-partly = not all compared
attach-screen-pass = read { $span } ago in { $took }
attach-screen-scan = so far; not all keys were examined yet
attach-screen-second-pass = alarms after a second pass
attach-set-name = correct { $setting } in the profile, or pass the --redis that the service uses; if no sale is loaded, load it first
attach-set-name-later = run this check again after the first order; if it is still missing then, correct { $setting } in the profile
attach-sets = { $count ->
    [one] set of 1 sale
   *[other] sets of { $count } sales
}
attach-sql-name = { $key } must be a name of letters, digits and underscores
attach-status-cost = cost
attach-status-database = database
attach-status-foreign-stream = unknown: its key has the wrong type
attach-status-limits = limits
attach-status-more-consumers = { $shown } of { $total } consumers shown; --json has all.
attach-status-more-locks = { $shown } of { $total } locks shown; --json has all.
attach-status-more-sales = Only the newest { $shown } sales are read.
attach-status-no-sales = No sales.
attach-status-no-stream = none: orders wait in the memory of the service and cannot be seen
attach-status-read = figures of { $taken }, read in { $took } with { $commands } Redis commands and { $rows ->
    [one] 1 row
   *[other] { $rows } rows
} of SQL
attach-status-reads = a pass reads at most { $orders } orders, { $buyers } buyers, { $entries } undelivered and { $entries } pending entries, and examines { $keys } keys for locks
attach-status-redis = Redis
attach-status-stream = { $key }: length { $length }, lag { $lag }, pending { $pending }, added/s { $rate }
attach-stock-mismatch = Sale #{ $voucher }: the stock is { $redis_stock } in Redis and { $sql_stock } in SQL, orders in flight: { $in_flight }. Count the live orders. If SQL is right, 'seckill attach recover' corrects Redis; it keeps the pieces of buyers without an order.
attach-stock-without-sale = { $count ->
        [one] Stock { $key } in Redis has
       *[other] { $count } stocks in Redis, such as { $key }, have
    } no sale in SQL: users buy what cannot become an order. Delete the key, or insert the sale.
attach-stocks = { $pattern }: { $count ->
    [one] 1 number
   *[other] { $count } numbers
}
attach-stocks-moved = no key { $pattern }: { $count ->
    [one] the sale has
   *[other] all { $count } sales have
} moved to an engine
attach-storage-engine = table { $table } is stored by { $engine }, which has no transactions: an order that is rolled back stays there, and its piece is sold twice
attach-storage-engine-fix = convert it first: ALTER TABLE … ENGINE=InnoDB
attach-storage-engine-refused = { $found }; convert it first: ALTER TABLE { $table } ENGINE=InnoDB; nothing was changed
attach-stream = { $key }, { $length ->
    [one] 1 entry
   *[other] { $length } entries
}
attach-stream-gone = { $key } does not exist
attach-stream-missing = Stream { $stream } does not exist, although a sale has sold: the orders that were in it are lost, or wait elsewhere. Check stream.key of the profile, and whether the key was deleted; if orders wait in the memory of the service, pass --profile 002.
attach-stream-unread = Buyers are not compared: the key of the stream has the wrong type, so entries are unknown.
attach-stuck = Consumer { $consumer } holds { $count ->
        [one] 1 entry
       *[other] { $count } entries
    } not acknowledged for { $seconds } s. Check whether it runs and acknowledges the right stream.
attach-table = { $table }, { $columns } columns
attach-time-zone = time_zone must be an IANA name such as "Asia/Shanghai", or a POSIX string such as "CST-8"
attach-unknown-profile = unknown profile '{ $name }'; use { $names }, or a TOML file such as ./{ $name }.toml
attach-wanted-numbers = a list of integers
attach-zone = dates in SQL are read as { $zone }; the database does not state their zone

## bench

bench-database-in-use = the database holds sale #{ $sale }, which is not archived; pass another --database, or omit it
bench-disturbed = { $what }; run the benchmark again while no other program uses these servers
bench-entry-malformed = an entry of the tutorial's stream is not an order
bench-ids-repeated = an order ID was issued twice, or is smaller than an earlier one
bench-inserted-exist = an order of the benchmark is already in the database; run it again while no other program uses these servers
bench-inserted-sale = benchmark: inserted rows
bench-inserted-wrong = { $written } of { $orders } rows were inserted
bench-lock-held = another process holds the lock of a buyer
bench-no-progress = the consumer has written nothing for { $seconds } s; see the log in the data directory
bench-no-restart = Redis did not start again in time after it was killed; run the benchmark again on a less busy machine
bench-not-admitted = only { $admitted } of { $orders } buyers were admitted ({ $why })
bench-order-exists = a buyer of the tutorial's stream already has an order
bench-other-bench = another benchmark uses this Redis, or a killed one left its keys there; wait until it ends, or delete the keys { $keys }
bench-program = redis-benchmark failed: { $error }
bench-redis-in-use = node { $node } is alive on this Redis; pass another --redis, or omit it
bench-rush-sale = benchmark: admission
bench-rush-wrong = wrong counts after the load: { $found } of { $admitted } buyers are in Redis, { $written } of { $persisted } orders in SQL
bench-sale-gone = the sale of the benchmark no longer exists
bench-script-cluster = the script of the tutorial does not run on a cluster; pass another --redis, or omit it
bench-script-keys = this Redis holds keys of the tutorial's script ({ $keys }), left by a killed benchmark or owned by another program; delete them if they are not used, pass another --redis, or omit it
bench-script-replies = wrong replies of the tutorial's script to { $requests } requests: { $admitted } admitted, { $sold_out } sold out, { $duplicate } duplicate
bench-script-wrong = wrong counts after the tutorial's script: { $expected } buyers expected, { $buyers } in the set, { $entries } in the stream; pieces left: { $left }
bench-seckill-sale = benchmark: the engine's consumer
bench-seckill-wrong = the engine's consumer wrote { $written } of { $orders } orders; dead letters: { $dead }
bench-sold-out = the sale of the tutorial's stream is sold out
bench-stopped = stopped before both sides were measured
bench-stream-empty = the stream ended before every order was written
bench-tutorial-sale = benchmark: the tutorial's consumer
bench-tutorial-wrong = the tutorial's consumer wrote { $written } of { $orders } orders; pieces left: { $left }

## cli

cli-activity-none = No log entries match.
cli-activity-older = older entries: { $command }
cli-activity-period = --since must be before --until
cli-activity-why = reason: { $reason }
cli-alive = alive
cli-audit-failed = Audit FAILED.
cli-audit-failed-because = Audit failed: { $error }.
cli-audit-incomplete = Audit incomplete: no differences in the sales that were read; unknown: { $sales }.
cli-audit-incomplete-partitions = Audit incomplete: no differences in the sales that were read; the sales of the unreachable partitions are unknown.
cli-audit-loss = { $at }  { $node }, { $subject }: { $result }
cli-audit-passed = Audit passed: all orders accounted for.
cli-audit-prevented = the sales cannot be audited until the partition is repaired
cli-audit-repair = 'seckill audit --repair' shows what can be repaired, and asks for confirmation
cli-audit-sale-incomplete = { $name } (incomplete)
cli-audit-unknown-buyers = Up to { $buyers ->
    [one] 1 admitted buyer
   *[other] { $buyers } admitted buyers
} may have been lost without any record; no audit can find them.
cli-bench = benchmark
cli-bench-answered = response to a key, us
cli-bench-batches = seckill, at most { $batch } per transaction
cli-bench-busy = Requests refused because the node was busy, per round: { $busy }
cli-bench-chart-admitted = admitted per second
cli-bench-chart-goodput = Buyers admitted
cli-bench-chart-growth = Orders written as the table grows
cli-bench-chart-latency = Latency of admission
cli-bench-chart-microseconds = microseconds
cli-bench-chart-offered = offered requests per second
cli-bench-chart-orders = orders per second
cli-bench-chart-p99 = Latency of admitted buyers, p99
cli-bench-chart-rows = rows in the table
cli-bench-chart-seconds = seconds
cli-bench-chart-shard-cost = Cost of a sale over shards
cli-bench-chart-shard-cpu = CPU seconds of Redis per million buyers
cli-bench-chart-shard-rest = From the first dry shard to sold out, { $buyers } buyers (computed)
cli-bench-chart-shards = shards
cli-bench-drawn = drawing of a frame, us
cli-bench-engine-ended = the engine stopped during the load test
cli-bench-frame = { $bytes } at { $size }
cli-bench-frame-name = bytes per frame
cli-bench-growth =
    median of { $rounds ->
        [one] { $rounds } round
       *[other] { $rounds } rounds
    } with { $orders } orders each, on { $database }
    of first: divided by the first size; ratio: seckill divided by this row
cli-bench-hand-over = hand-over to one of { $waiting }, p50 us
cli-bench-hand-over-p99 = hand-over, p99 us
cli-bench-idle = { $both } of a core, { $engine } without the console
cli-bench-idle-name = idle
cli-bench-ids =
    median of { $rounds ->
        [one] { $rounds } round
       *[other] { $rounds } rounds
    } with { $ids } IDs each; no ID occurred twice
    ratio: seckill divided by this row
cli-bench-incr = tutorial, { $tasks ->
        [one] { $tasks } task
       *[other] { $tasks } tasks
    }
cli-bench-inserted = only inserted
cli-bench-latency =
    Latency in microseconds, median of { $rounds ->
        [one] { $rounds } round
       *[other] { $rounds } rounds
    }, on { $database }.
    Capacity: { $capacity } orders/s admitted and written to SQL ({ $range }). A dash means that no reply came in time.
    A lone buyer waits { $p50 } times as long as for the script (p99: { $p99 } times).
cli-bench-latency-tutorial = tutorial
cli-bench-leased = seckill, { $batch } at once
cli-bench-load = { $watched } requests/s, { $alone } without the console
cli-bench-load-name = load test
cli-bench-locks =
    median of { $rounds ->
        [one] { $rounds } round
       *[other] { $rounds } rounds
    }
    range: of the reentrant lock; ratio: reentrant divided by the first column
cli-bench-locks-per-second = locks per second, { $tasks ->
    [one] 1 task
   *[other] { $tasks } tasks
}
cli-bench-lone = one by one
cli-bench-no-answer = a request got no reply, so nothing was measured: { $error }
cli-bench-overload =
    Latency of admitted buyers in microseconds, median of { $rounds ->
        [one] { $rounds } round
       *[other] { $rounds } rounds
    }, on { $database }.
    Capacity: { $capacity }/s ({ $range }). Latency goal of the queue: { $goal } ms. A dash means that no reply came in time.
cli-bench-persisted = seckill, until in SQL
cli-bench-recovered = seckill, pending entries of a dead node
cli-bench-recovery =
    median of { $rounds ->
        [one] { $rounds } round
       *[other] { $rounds } rounds
    }, on { $database }
    ratio: seckill with pending entries divided by this row
cli-bench-rounds =
    median of { $rounds ->
        [one] { $rounds } round
       *[other] { $rounds } rounds
    } with { $requests } requests each, on { $database }
    ratio: seckill divided by this row
cli-bench-script = tutorial, { $connections ->
        [one] { $connections } connection
       *[other] { $connections } connections
    }
cli-bench-shards =
    median of { $rounds ->
        [one] { $rounds } round
       *[other] { $rounds } rounds
    } with { $users } buyers each, all shards on one Redis; database: { $database }
    CPU s/million: CPU time of Redis per million admitted buyers; on servers (computed): throughput on as many servers
    with a core each, divided by that of one shard
cli-bench-shards-hash = by hash
cli-bench-shards-moves =
    { $stock } pieces over { $shards } shards, sold out by buyers of whom four of five belong to one shard
    a shard gave or received pieces { $changes } times; pieces gained in all: { $gained }; time of a move without load: { $each } ms
    wait of an admitted buyer: { $p99 } ms (p99), { $most } ms (longest)
cli-bench-shards-simulated =
    computed, with the measured capacity of a shard and time of a move; a piece for one in a hundred buyers
    moves: each serves all dry shards for which buyers wait, and takes the time of a move for each shard that gives
    imbalance: most pieces sold by a shard divided by the fewest, when the first is dry; moving: share of the time from
    the first dry shard to sold out in which a move was in progress; at 100 %, the database that commits them is the limit
cli-bench-shards-zipf = by Zipf's law
cli-bench-sides =
    median of { $rounds ->
        [one] { $rounds } round
       *[other] { $rounds } rounds
    }, on { $database }
    ratio: seckill divided by this row
cli-bench-slowed = { $slowed }, the median of { $rounds ->
    [one] { $rounds } round
   *[other] { $rounds } rounds
}; half of them between { $low } and { $high }
cli-bench-slowed-name = slowed by
cli-bench-start =
    First admission of a node that starts beside { $orders } orders, ms:
    { $live } with a live node, { $restarted } after a restart of Redis.
cli-bench-tutorial = tutorial, one by one
cli-bench-undelivered = seckill, undelivered entries
cli-cancelled = cancelled; nothing was changed
cli-changed = { $entry }: was { $was }, is { $is }
cli-claim = Transfer { $entries ->
    [one] 1 pending entry
   *[other] { $entries } pending entries
} to '{ $to }'?
cli-claim-part = partition { $partition }: { $entries ->
    [one] 1 entry
   *[other] { $entries } entries
}, from { $from } to { $to }
cli-confirmation-needed = { $question } No terminal for the confirmation; pass --yes.
cli-console-json = the console has no JSON output; use 'seckill status --json'
cli-database-unavailable = the database is unavailable ({ $reason })
cli-dead = dead
cli-dead-burial = { $at }  { $deliveries ->
    [one] 1 delivery
   *[other] { $deliveries } deliveries
}, from { $from }: { $reason }
cli-dead-compensate = Delete { $letters ->
    [one] 1 dead letter
   *[other] { $letters } dead letters
} permanently, cancel the orders of { $buyers ->
    [one] 1 waiting buyer
   *[other] { $buyers } waiting buyers
}, and return their stock?
cli-dead-discard = Delete { $letters ->
    [one] 1 dead letter
   *[other] { $letters } dead letters
} permanently? Letters of waiting buyers are kept: --compensate returns their stock.
cli-dead-fields = fields
cli-dead-letter = dead letter { $letter }
cli-dead-letter-of = dead letter { $letter }, was entry { $entry }
cli-dead-missing = dead letter { $letter } does not exist; see 'seckill dead list'
cli-dead-more = { $shown } of { $total } shown; next page: --from { $next }
cli-dead-next = Next: 'seckill dead replay' or 'seckill dead discard'.
cli-dead-no-consumer = no consumer
cli-dead-no-match = no dead letters match; see 'seckill dead list'
cli-dead-no-order = no order: { $fault }
cli-dead-none = No dead letters.
cli-dead-none-of = No dead letters match (total: { $total }).
cli-dead-none-of-these = none of these dead letters exist; see 'seckill dead list'
cli-dead-not-found = not found
cli-dead-nothing-to-do = none of these dead letters can be processed this way; see their verdicts above
cli-dead-replay = Replay { $letters ->
    [one] 1 dead letter
   *[other] { $letters } dead letters
} into the order stream? The others are kept.
cli-dead-replays = dead after { $replays ->
    [one] 1 replay
   *[other] { $replays } replays
}
cli-dead-row = in SQL: order { $id } of buyer { $user_id }, sale #{ $voucher_id }, { $status }
cli-doctor-acl = grant the user of the URL these permissions with ACL SETUSER: { $rules }
cli-doctor-aof = on, appendfsync { $fsync }
cli-doctor-aof-on = on; when it is synced is unknown: this user may not read CONFIG
cli-doctor-both-killed = kill -9 of both
cli-doctor-check = { $name ->
    [append-only-file] append-only file
    [data-directory] data directory
    [initial-stock] initial stock
    [order-IDs] order IDs
    [storage-engine] storage engine
    [time-zone] time zone
    [redis-writes] redis writes
   *[other] { $name }
}
cli-doctor-chmod = run 'chmod go=' on each of them
cli-doctor-clock = { $state ->
    [same] that of { $server } is the same within { $by }
    [ahead] that of { $server } is { $by } ahead of this host's
   *[behind] that of { $server } is { $by } behind this host's
}
cli-doctor-clock-set = synchronize the clocks of both hosts (NTP): sales open and close, and orders are dated, by the clock of Redis
cli-doctor-commands = all required commands are allowed
cli-doctor-commands-unknown = this server does not have them: remove the lines with 'rename-command' from its configuration, or use Redis or Valkey 7.0 or later
cli-doctor-data-loss = Possible data loss with these settings, by failure:
cli-doctor-database = { $version }, { $place }
cli-doctor-database-killed = kill -9 of the database
cli-doctor-database-power = power loss of the database
cli-doctor-disk = { $mib } MiB free at { $path }; a large sale may need { $needed }
cli-doctor-durability = assets/durability.md explains each of them, and the settings that change them.
cli-doctor-failover = failover of Redis
cli-doctor-files = this process may open { $limit } files: a server may have { $connections } connections of clients, and http.connections is { $wanted }
cli-doctor-files-raise = raise the hard limit: LimitNOFILE= in a unit of systemd, --ulimit nofile= of a container, or limits.conf; or lower http.connections
cli-doctor-fix = fix: { $fix }
cli-doctor-free-database-space = free some disk space, or name another file with --database
cli-doctor-free-space = free some disk space, or pass another --data-dir
cli-doctor-grade = { $grade ->
    [problem] PROBLEM
    [unreachable] UNREACHABLE
   *[other] { $grade }
}
cli-doctor-grant-writes = grant the user of the URL the rights that the README names, or pass the URL of a server that accepts writes
cli-doctor-locale = { $locale } is not UTF-8
cli-doctor-mode = { $path } (mode { $mode })
cli-doctor-more-replicas = connect more replicas or lower engine.wait_replicas; until then no buyer gets a reply
cli-doctor-no-aof = off: a restart of Redis loses admitted orders
cli-doctor-no-config = unknown: this user may read neither CONFIG nor INFO
cli-doctor-no-eviction = CONFIG SET maxmemory-policy noeviction: evicting a key loses buyers
cli-doctor-no-terminal = run the console in a terminal; 'seckill status' and 'seckill demo --headless' need none
cli-doctor-node-killed = kill -9 of a node
cli-doctor-open-to-others = open to other users: { $paths }
cli-doctor-partitions = { $partitions }, all served
cli-doctor-passed = All checks passed.
cli-doctor-problems = Problems found.
cli-doctor-redis = { $product } at { $place }
cli-doctor-redis-killed = kill -9 of Redis
cli-doctor-redis-power = power loss of Redis
cli-doctor-refused = rejected: { $names } ({ $why })
cli-doctor-repair = run 'seckill audit --repair', or start a node, which repairs this within seconds
cli-doctor-replicas = { $replicas } connected, { $wait } must confirm
cli-doctor-restore = restore a backup, or pass another --database
cli-doctor-schema = up to date, all tables are readable
cli-doctor-server = { $version } at { $path }
cli-doctor-server-in-tool = { $server } { $version }, contained in { $path }
cli-doctor-set-locale = export LC_ALL=C.UTF-8, or the console draws in ASCII only
cli-doctor-skipped = skipped because of --read-only
cli-doctor-small-window = the full console needs 80x24; enlarge the window
cli-doctor-sync-aof = CONFIG SET appendfsync everysec
cli-doctor-turn-on-aof = CONFIG SET appendonly yes, and add it to redis.conf
cli-doctor-untested = seckill was not tested with this version; use a tested one ({ $versions }), or rehearse a sale on it first
cli-doctor-zone = cron expressions are due in { $zone }, on every node; the zone of this host is { $host }
cli-doctor-zone-set = set engine.jobs.time_zone in the configuration file to change it, and restart a node
cli-done-but-not-logged = 'seckill { $command }' succeeded ({ $result }), but writing the audit log failed; record it manually
cli-duplicate = duplicate
cli-empty-filter = an empty filter matches everything; omit it, or pass --all
cli-expected-address = expected a numeric address and a port, such as 127.0.0.1:8080
cli-expected-count = expected a non-negative integer
cli-expected-difference = expected an integer; a negative one removes stock
cli-expected-range = expected { $from } to { $to }
cli-failed-and-not-logged = 'seckill { $command }' { $result }; writing the audit log failed as well
cli-file-exists = { $path } already exists; pass another path or remove it
cli-file-exists-without-yes = { $path } already exists; pass --yes to overwrite it, or another path
cli-file-no-file = cannot write { $path }: it is not a file, terminal or pipe; pass another path
cli-file-not-written = cannot write { $path } ({ $error }); pass another path
cli-incident = Incident, { $since } to { $until }
cli-incident-alarm = alarm
cli-incident-audit = audit
cli-incident-audit-failed = FAILED, see the audit by order ID below
cli-incident-audit-passed = passed, see the audit by order ID below
cli-incident-audit-timeout = the audit did not finish within five minutes; run 'seckill audit'
cli-incident-away = { $server } unreachable
cli-incident-body-gone = body gone
cli-incident-by-id-failed = **Audit FAILED**, checked by order ID, at { $at }.
cli-incident-by-id-passed = Audit passed, checked by order ID, at { $at }.
cli-incident-by-id-title = Audit by order ID
cli-incident-chart = Orders in SQL per { $seconds } s: by time of admission and by time of writing. Admitted orders that are not in SQL yet are not included.
cli-incident-created = created
cli-incident-database = database
cli-incident-dead = dead letters
cli-incident-dead-title = Dead letters
cli-incident-entries = { $entries ->
    [one] 1 entry
   *[other] { $entries } entries
}.
cli-incident-entries-cut = The oldest { $entries } of { $total ->
    [one] 1 entry
   *[other] { $total } entries
}.
cli-incident-figures-title = Metrics
cli-incident-first = The first { $entries }:
cli-incident-from = from
cli-incident-letters = { $letters ->
    [one] 1 dead letter
   *[other] { $letters } dead letters
}.
cli-incident-letters-cut = { $letters ->
    [one] 1 dead letter
   *[other] { $letters } dead letters
}, and there are more.
cli-incident-locks-title = Locks
cli-incident-locks-unknown = Unknown: their Redis server is unreachable.
cli-incident-log-cut = 'seckill activity' shows older lines of this period.
cli-incident-missing = Not available:
cli-incident-no-consumers = The group has no consumers.
cli-incident-no-group = {" "}The consumer group is MISSING.
cli-incident-no-locks = No locks are known to be held.
cli-incident-no-log = No log entries in this period.
cli-incident-no-nodes = No nodes.
cli-incident-no-runs = No job runs yet.
cli-incident-no-sales = No sales.
cli-incident-no-verdicts = No verdicts: the database is unreachable.
cli-incident-nodes-title = Nodes
cli-incident-not-opened = could not be opened: { $why }
cli-incident-older = older
cli-incident-oldest-pending = {" "}The oldest pending entry is { $age } old.
cli-incident-orders-title = Orders over time
cli-incident-partly = {" "}Reachable partitions only.
cli-incident-partitions = partitions
cli-incident-pending-title = Pending entries and their plan
cli-incident-period = --since must be before --until, and in the past
cli-incident-reasons = And { $more ->
    [one] 1 more reason
   *[other] { $more } more reasons
}.
cli-incident-redis = redis
cli-incident-runs-title = Job runs, newest first
cli-incident-sales-title = Sales
cli-incident-stream = { $length ->
    [one] 1 entry
   *[other] { $length } entries
} kept, lag { $lag }, pending { $pending }, dead letters { $dead }.
cli-incident-stream-title = Stream and group
cli-incident-stream-unknown = Unknown.
cli-incident-timeline-title = Timeline
cli-incident-to = to
cli-incident-unknown = Unknown: { $why }
cli-incident-version = seckill
cli-incident-written-failed = { $file } written; audit FAILED.
cli-incident-written-passed = { $file } written; audit passed.
cli-incident-written-unknown = { $file } written; audit unknown.
cli-incident-younger = under { $age }
cli-jobs-no-run = No job runs yet.
cli-keys-hint = Reassign keys with [keys] in the config file: mark = "v"
cli-listen-missing = the options for TLS, --demo-login and --admin-listen need --listen ADDR
cli-listen-read-only = buyers cannot be served in read-only mode; omit --listen or --read-only
cli-listen-with-command = --listen and the TLS options before a command apply to the console; pass those of 'seckill serve' after the command
cli-lock-other-holder = '{ $name }' is not held by { $wanted } but by { $holder }; nothing was changed
cli-lock-release = { $question } The holder's work is cancelled and its late writes are rejected.
cli-lock-release-alive = Force-release '{ $name }', held by { $node } ({ $task }), which is alive?
cli-lock-release-dead = Force-release '{ $name }', held by { $node } ({ $task }), which sends no heartbeat?
cli-lock-release-unknown = Force-release '{ $name }', held by { $node } ({ $task }), which is not a known node?
cli-locks-more = { $shown } of { $total } shown; use --limit for more.
cli-locks-no-end = no end
cli-locks-no-node = { $node } (unknown node)
cli-locks-none = No locks are held.
cli-locks-orphan = { $node } (orphan)
cli-log-filter-invalid = SECKILL_LOG is not a log filter: "{ $filter }" ({ $why }). Use a level or a list of targets: { $example }
cli-locks-unknown = The holders are unknown.
cli-ms = { $millis } ms
cli-next-bought = It is unpaid. Pay it: seckill orders pay { $order }
cli-next-changed = Entries that changed since the plan was created were skipped; create a new plan.
cli-next-lost = Entries without a body were skipped because Redis lacks their sales. Load the sales with 'seckill audit --repair', then create a new plan.
cli-next-not-found = 'seckill orders show { $order }' shows where it is.
cli-next-page = next page: { $command }
cli-next-rewound = 'seckill stream show' shows the progress, and 'seckill audit' the result.
cli-next-sale-created = Run a load test: seckill rush --voucher { $voucher } --users 1000
cli-next-waiting = Dead letters of waiting buyers are kept: replay them, or discard them with --compensate.
cli-next-without-body = 'seckill pending apply' rebuilds the orders of entries without a body.
cli-no-answer = no reply within { $seconds } s
cli-order = order { $id }
cli-orders-dead = dead letter ({ $reason }), { $of }
cli-orders-lost = LOST: assigned to { $of } in Redis and stored nowhere else
cli-orders-none = No orders match. Orders in flight are not in SQL yet; look one up with 'seckill orders show ID'.
cli-orders-of-place = buyer { $user }, sale #{ $voucher }, place { $place } of the buyer
cli-orders-of-sale = buyer { $user }, sale #{ $voucher }
cli-orders-of-voucher = buyer { $user }, ordinary voucher #{ $voucher }
cli-orders-pending = pending as { $entry }, { $of }; 'seckill pending list' shows its holder
cli-orders-persisted = { $status }, { $of }, written { $written }
cli-orders-undelivered = undelivered in the stream as { $entry }, { $of }
cli-output-not-written = cannot write the output ({ $error }); what the command has changed stays changed
cli-paid = paid
cli-partition = partition { $n }
cli-partition-finding = partition { $n }: { $finding }
cli-partitions-differ = the number of partitions of this deployment is { $agreed }; omit --partitions, or, to change it, run 'seckill work --partitions { $wanted }' while no node is alive
cli-paused = paused
cli-pending-all-held = All entries are held by live nodes; nothing to do.
cli-pending-apply = Apply this plan to at most { $entries ->
    [one] 1 entry
   *[other] { $entries } entries
}?
cli-pending-more = { $shown } of { $total } shown; next page: --from { $next }
cli-pending-next = 'seckill pending plan' shows the action for each of them.
cli-pending-no-match = The filter matches no pending entry.
cli-pending-none = No pending entries.
cli-pending-none-of = No pending entries match (total: { $total }).
cli-plan-apply = Apply it: seckill pending apply; --out FILE saves the plan.
cli-plan-apply-file = Apply it: seckill pending apply { $path }
cli-plan-more = … and { $more } more.
cli-plan-nothing = Nothing to plan: no pending entries match.
cli-plan-orders = orders in SQL
cli-plan-progress = { $action }: { $done } of { $of }
cli-plan-read-failed = reading the plan failed unexpectedly; see the log in the data directory
cli-plan-rebuilt = { $orders ->
    [one] 1 admitted order exists nowhere else and is
   *[other] { $orders } admitted orders exist nowhere else and are
} re-added to the stream.
cli-plan-stock = #{ $voucher } SQL stock
cli-plan-unreadable = cannot read the plan { $path } ({ $error }); 'seckill pending plan --out FILE' writes one
cli-plan-waits = {" "}(waiting for { $seconds } s: a process that was stopped in its transaction holds rows until the database ends its session)
cli-read-only-works = { $why }; 'seckill --read-only' still opens the console
cli-reason-prompt = Reason for the audit log (optional):
cli-remove-consumer = Remove '{ $name }', which holds no entries, from { $groups ->
    [one] 1 group
   *[other] { $groups } groups
}?
cli-repair-oversold = manual action needed: { $finding }; compare tb_voucher_order with tb_seckill_voucher; if the orders are right, add the missing pieces with 'seckill sale restock { $voucher } { $missing }', then repair again
cli-repair-manual = manual action needed: { $finding }; compare tb_voucher_order with tb_seckill_voucher
cli-repair-partitions = Repair { $partitions ->
    [one] 1 partition
   *[other] { $partitions } partitions
}?
cli-repair-sales = Apply this repair to { $sales ->
    [one] 1 sale
   *[other] { $sales } sales
}?
cli-repair-stranded = manual action needed: { $finding }; 'seckill dead replay --all' replays them, 'seckill dead discard --all --compensate' cancels them and returns their stock
cli-repair-the-partition = repair the partition
cli-repaired = Repaired: { $put_back ->
    [one] 1 buyer
   *[other] { $put_back } buyers
} restored, { $enqueued ->
    [one] 1 order
   *[other] { $enqueued } orders
} re-added to the stream, { $given_back ->
    [one] 1 piece
   *[other] { $given_back } pieces
} returned to stock.
cli-repaired-partitions = { $faults ->
    [one] 1 partition fault
   *[other] { $faults } partition faults
} repaired; 'seckill activity' shows how.
cli-repaired-stocks = { $sales ->
    [one] The SQL stock of 1 sale was
   *[other] The SQL stocks of { $sales } sales were
} derived from the live orders.
cli-replayed = replayed
cli-requests = requests
cli-runtime = cannot start the runtime ({ $error }); check the resource limits of this user
cli-rush-abandoned = no reply before the load test was stopped
cli-rush-certificate = the certificate of { $server } is not accepted ({ $why }); use a host name that the certificate contains, and pass its CA certificate with --tls-ca FILE (for a self-signed certificate with CA:FALSE, the certificate itself)
cli-rush-cut-short = stopped before all requests were sent
cli-rush-dead = { $buyers ->
    [one] The order of 1 admitted buyer is a dead letter
   *[other] The orders of { $buyers } admitted buyers are dead letters
}; 'seckill dead list' shows why.
cli-rush-first-error = first error: { $error }
cli-rush-first-rejection = first rejection: { $reason }
cli-rush-not-a-url = expected http:// or https://, a host and a port, such as http://127.0.0.1:8080
cli-rush-not-seckill = { $server } is not a seckill server: its answer ({ $status }) is not one of this API; pass the address of 'seckill serve'
cli-rush-redirected = { $server } redirects to { $to }; pass the address of 'seckill serve' with --http
cli-rush-refused = { $server } has no such voucher or is not ready ({ $status }: { $why }); no request was sent
cli-rush-requests = { $requests ->
    [one] 1 request
   *[other] { $requests } requests
}, { $rate } per second. Latency in milliseconds:
cli-rush-server-away = { $server } cannot be reached ({ $why }); start it with 'seckill serve', or check the scheme, host and port of --http
cli-rush-settled = waited { $seconds } s after the last reply for the orders to settle
cli-rush-silent = { $server } did not answer within { $seconds } s; check its load, or lower the rate of requests
cli-rush-tls-ca = cannot use --tls-ca { $path } ({ $reason }); pass a PEM file with the certificate of the authority, or of the server if it is self-signed with CA:FALSE
cli-rush-tls-ca-unused = --tls-ca needs a server with https://; pass its address with --http, or omit --tls-ca
cli-rush-unsettled = Some admitted orders are not known to be settled; 'seckill pending list' and 'seckill audit' show where they are.
cli-sale-at-once = immediately
cli-sale-behind = SQL lacks changes of { $sales } that Redis has, as after a restore from a backup; shown are phase, window and initial stock of Redis. Bring SQL up to date: 'seckill audit --repair'
cli-sale-end = End sale #{ $voucher } '{ $title }'? Unsold: { $left } of { $initial ->
    [one] 1 piece
   *[other] { $initial } pieces
}. The sale cannot be reopened.
cli-sale-ends = ends
cli-sale-limit = { $limit ->
    [one] 1 order
   *[other] { $limit } orders
} per user
cli-sale-limit-name = limit
cli-sale-lost = SQL has lost { $sales }, which Redis still has: no buyer is admitted. Restore it from Redis: 'seckill audit --repair'
cli-sale-no-end = no end
cli-sale-none = No sales yet. Create one: seckill sale create --title 'hot pot 50% off' --stock 100
cli-sale-none-archived = No archived sales.
cli-sale-none-archived-before = No older archived sales.
cli-sale-not-in-redis = removed from Redis
cli-sale-not-loaded = not loaded
cli-sale-opens = opens
cli-sale-partly-loaded = { $stock } ({ $lacking ->
    [one] 1 shard is
   *[other] { $lacking } shards are
} not loaded)
cli-sale-state = { $state }, changed { $at }
cli-sale-state-name = state
cli-sale-stock = { $stock } of { $initial } (SQL { $db_stock })
cli-sale-stock-in-sql = { $left }, { $db_stock } of { $initial } in SQL
cli-sale-unsold = { $db_stock } of { $initial } unsold
cli-sale-window = It sells from { $begin ->
        [none] now
       *[other] { $begin } (in { $ahead })
    } { $end ->
        [none] on, without an end
       *[other] to { $end }
    }.
cli-serve-admin = Metrics, health checks and the endpoints of operators are at { $address }.
cli-serve-demo-login = Login by code is on, for demos: codes are not sent, they are in { $path }. Everyone who can read this file can log in as any user.
cli-serve-files = At most { $connections } connections of clients instead of { $wanted }: this process may open { $limit } files. Raise the hard limit (LimitNOFILE= in a unit of systemd).
cli-serve-insecure = { $address } can be reached by other hosts, and passwords and tokens would be sent in plain text; listen on a loopback address, or pass --insecure if a proxy or the network protects them
cli-serve-no-admin = Metrics, health checks and the endpoints of operators are open to all clients of this address. Give them an address of their own with --admin-listen.
cli-serve-started = { $node } serves { $address } with Redis at { $redis } and { $database }. Stop it with Ctrl-C or SIGTERM.
cli-signals = cannot install the signal handlers ({ $error })
cli-sold-out = sold out
cli-status-answers = responds in { $ms } ms
cli-status-audit-failed = FAILED: { $finding }
cli-status-audit-more = ; { $more } more; see 'seckill audit'
cli-status-audit-passed = passed
cli-status-audit-unknown = unknown: { $error }
cli-status-away = UNREACHABLE: { $error }
cli-status-consumer = { $name } { $life }, { $pending } pending
cli-status-in-flight = { $orders ->
    [one] 1 order
   *[other] { $orders } orders
} in flight
cli-status-more-sales = { $more } more: 'seckill sale list' shows all
cli-status-no-database = the database is unreachable: sales, orders, jobs and the log are unknown
cli-status-no-sales = No sales yet.
cli-status-no-writes = REJECTS WRITES: { $why }
cli-status-partly = PARTLY UNREACHABLE
cli-status-stream = lag { $lag }, pending { $pending }, dead letters { $dead }
cli-status-stream-kept = { $length ->
    [one] 1 entry
   *[other] { $length } entries
} kept, the oldest { $oldest } old
cli-status-stream-name = stream
cli-status-stream-partly = { $line } (reachable partitions only)
cli-status-stream-pending = lag { $lag }, pending { $pending }, oldest { $oldest }, dead letters { $dead }
cli-stream = partition { $partition }  { $length ->
    [one] 1 entry
   *[other] { $length } entries
} kept of { $added } added, { $dead ->
    [one] 1 dead letter
   *[other] { $dead } dead letters
}
cli-stream-again = { $entries ->
    [one] entry
   *[other] entries
} redelivered, { $from } to { $to } ({ $from_time } to { $to_time })
cli-stream-dry-run = Nothing was changed: this is a dry run.
cli-stream-group = group { $name }: delivered up to { $delivered }, entries read { $read }, lag { $lag }, pending { $pending }
cli-stream-group-lost = NO GROUP: a running node or 'seckill stream rewind --to start' recreates it at the start
cli-stream-group-oldest = {", "}the oldest { $entry } added { $age } ago
cli-stream-malformed = of them malformed: moved to the dead letters
cli-stream-missing = of them not in SQL: written if stock is left, otherwise moved to the dead letters
cli-stream-no-group = no group yet
cli-stream-pending = of them pending now: settled by their consumer or by this command
cli-stream-preview = partition { $partition }: delivered to the group up to { $delivered }
cli-stream-preview-no-group = partition { $partition }: there is no group; it will be created
cli-stream-range = from { $first }, { $age } old, to { $last }
cli-stream-rewind = Redeliver { $again ->
    [one] 1 entry
   *[other] { $again } entries
}? { $written ->
    [one] 1 is in SQL and is
   *[other] { $written } are in SQL and are
} acknowledged, { $missing ->
    [one] 1 is
   *[other] { $missing } are
} written.
cli-stream-rewind-skipped = {" "}{ $skipped ->
    [one] 1 older entry is neither pending nor in SQL: it is SKIPPED.
   *[other] { $skipped } older entries are neither pending nor in SQL: they are SKIPPED.
}
cli-stream-rewind-unheld = {" "}Of those missing in SQL, no longer assigned to a buyer: { $unheld }; they become dead letters.
cli-stream-skipped = older entries are kept but not delivered
cli-stream-skipped-missing = of those not in SQL: SKIPPED; '--to start' would deliver them
cli-stream-trimmed = older entries were trimmed or deleted: gone
cli-stream-undelivered = entries after them, not delivered yet
cli-stream-unheld = of those not in SQL: no longer assigned to a buyer, to become dead letters
cli-stream-written = of them in SQL: acknowledged
cli-stuck = stuck
cli-token-file-empty = { $path } has no tokens; 'seckill users create' writes them
cli-token-file-line = line { $line } of { $path } is not a token; a line has one token and nothing else
cli-token-file-not-read = cannot read { $path } ({ $error }); 'seckill users create' writes a file of tokens
cli-token-file-too-short = { $users } buyers need as many tokens, but the file has { $found }; pass fewer --users, or create more
cli-tokens-created = Token #{ $id }: { $token }
cli-tokens-none = no tokens
cli-tokens-revoked = token #{ $id } is revoked
cli-tokens-unknown = there is no valid token #{ $id }; 'seckill tokens list' shows all
cli-unexpected-reply = unexpected reply from the engine; see the log in the data directory
cli-users-created = { $count ->
    [one] 1 user
   *[other] { $count } users
} created and logged in; the tokens are in { $path }
cli-verdict = { $verdict ->
    [body_gone] body gone
    [came_back] came back
    [holds_another] holds another
    [id_taken] ID taken
    [in_hand] in hand
    [no_sale] no sale
    [sale_lost] sale lost
    [not_awaited] not awaited
    [not_loaded] not loaded
    [not_promised] not promised
    [too_often] too often
   *[other] { $verdict }
}
cli-verdict-action = { $action ->
    [dead_letter] dead letter
   *[other] { $action }
}
cli-voucher-kind = { $kind }
cli-voucher-no-more = No more vouchers.
cli-voucher-none = No vouchers yet. Create one: seckill voucher create --title 'gift card'
cli-voucher-status = { $status }
cli-work-handed-over = { $node } has stopped; { $entries ->
    [one] 1 entry was not finished and is
   *[other] { $entries } entries were not finished and are
} handed over to the other nodes.
cli-work-read-only = a node changes data; run 'seckill work' without --read-only
cli-work-started = { $node } is running with Redis at { $redis } and { $database }. Stop it with Ctrl-C or SIGTERM.
cli-work-stopped = { $node } has stopped; its last batch is finished.
cli-work-unfinished = { $node } has stopped; a batch was not finished and stays pending until the next start.

## column

column-about = what happens
column-action = action
column-admitted = admitted
column-admitted-per-second = admitted/s
column-afterwards = afterwards
column-age = age
column-at = at
column-audit = the audit
column-busy-percent = busy %
column-buyer = buyer
column-buyers = buyers
column-bytes-per-row = bytes per row
column-cause = cause
column-changed = changed
column-closed = closed
column-consumer = consumer
column-cpu-per-million = CPU s/million
column-created = created
column-dead = dead
column-deliveries = deliveries
column-depth = depth
column-detail = detail
column-does = does
column-drill = drill
column-due = due
column-entries = entries
column-entry = entry
column-fault = fault
column-first-dry = first dry s
column-held = held
column-holder = holder
column-idle = idle
column-imbalance = imbalance
column-initial = initial
column-job = job
column-keys = keys
column-kind = kind
column-last = last
column-last-heartbeat = last heartbeat
column-lease-left = lease left
column-letter = letter
column-letters = letters
column-lock = lock
column-max = max
column-moves = moves
column-moving = moving
column-multilock = multi-server ({ $servers })
column-next = next
column-node = node
column-of-capacity = goodput/capacity
column-of-first = of first
column-on = on
column-on-servers = on servers
column-order = order
column-orders = orders
column-outcome = outcome
column-p99-range = p99 range
column-pays = price
column-pending = pending
column-per-second = per second
column-persisted = persisted
column-phase = phase
column-range = range
column-ratio = ratio
column-reason = reason
column-reentrant = reentrant
column-replays = replays
column-result = result
column-revoked = revoked
column-role = role
column-round-trips = round trips
column-rows = rows
column-sale = sale
column-samples = samples
column-schedule = schedule
column-seconds = seconds
column-shards = shards
column-shop = shop
column-since = since
column-sql-stock = SQL stock
column-status = status
column-stock = stock
column-task = task
column-title = title
column-token = token
column-token-name = name
column-took = took
column-tries = tries
column-undelivered = undelivered
column-until-sold-out = rest s
column-user = user
column-verdict = verdict
column-voucher = voucher
column-waiting = waiting
column-what = what
column-when-planned = when planned
column-who = who
column-why = why
column-worth = face value

## command

command-all-not-only-filtered-ones = All { $count }, not only the { $shown } filtered ones.
command-all-that-are-pending =
    { $count ->
        [one] { $count } entry
       *[other] { $count } entries
    }: all pending.
command-at-most-concurrent-requests = At most { $most } concurrent requests, { $pace }.
command-buyers-are-sending-requests =
    { $users ->
        [one] { $users } buyer is
       *[other] { $users } buyers are
    } sending requests to #{ $voucher }
command-cancel = Cancel
command-consumer-no-longer-exists = the consumer no longer exists
command-counting-dead-letters-was-cancelled = counting the dead letters was cancelled; nothing was changed
command-does-not-apply =
    { $phase ->
        [planned] #{ $id } has not started yet
        [running] #{ $id } is already running
        [paused] #{ $id } is paused; press { KEY("pause") } to resume it
        [sold_out] #{ $id } has started and is sold out
       *[other] #{ $id } has ended and cannot be changed
    }
command-does-nothing-here = { $key } has no function here{ $has_help ->
        [true] ; press { KEY("help") } for the keys
       *[false] {""}
    }
command-edge = { $top ->
    [true] this is the first row
   *[false] this is the last row
}
command-engine-has-stopped-display = the engine has stopped; the display is no longer updated
command-engine-stopped-before-it-replied = the engine stopped before it replied; check Activity ({ KEY("activity") }) before you repeat the command
command-entries-marked-ones =
    { $count ->
        [one] { $count } entry
       *[other] { $count } entries
    }: the marked ones.
command-held = '{ $name }', held by { $node }{ $has_task ->
        [true] {" "}({ $task })
       *[false] {""}
    }.
command-held-by-live-nodes-nothing = { $held } held by live nodes; nothing to do
command-holder-no-longer-holds-lock = the holder no longer holds the lock
command-is-available = { $key } is available in { $each }
command-is-being-created-wait = { $title } is being created; wait for the engine before creating another sale
command-job-no-longer-exists = the job no longer exists
command-no-command-is-running = no command is running
command-no-other-time-range = already at the shortest or longest time range
command-no-row-is-selected = no row is selected
command-nothing-was-changed = nothing was changed
command-nothing-was-changed-form-keeps = nothing was changed; the form keeps your input
command-of =
    { $left } of { $initial ->
        [one] { $initial } piece
       *[other] { $initial } pieces
    }
command-optional-for-log-to-edit = optional, for the log; { KEY("next-part") } to edit
command-order-is-no-longer = the order is no longer on the newest page
command-plan-is-ready = the plan is ready
command-requests-by-buyers =
    { $requests ->
        [one] { $requests } request
       *[other] { $requests } requests
    } by { $buyers ->
        [one] { $buyers } buyer
       *[other] { $buyers } buyers
    }, { $again } of them repeat.
command-sale-is-no-longer-listed = the sale is no longer listed
command-sent = { $command }: waiting for the engine
command-there-are-no-pending-entries = there are no pending entries to plan for
command-there-is-no-entry = there is no entry to mark
command-there-is-no-sale-to-change = there is no sale to change
command-these-entries-are-no-longer = these entries are no longer pending
command-this-view-has-no-rows = this view has no rows to filter
command-try-again-once = { $away }; try again once it is reachable
command-value = { $views } ({ $action })
command-value-2 = { $count }  { $verdict }: { $action }
command-waiting-for-engine = waiting for the engine
command-with-no-rate-limit = unthrottled

## common

common-admitted = admitted
common-attempts = requests
common-audit = audit
common-buyers = Buyers
common-create = Create
common-dead = DEAD
common-empty = {""}
common-end = End
common-entries = { $count ->
    [one] 1 entry
   *[other] { $count } entries
}
common-in-flight = in flight
common-lag = lag
common-named = { $name }: { $text }
common-node = NODE
common-node-failure = NODE FAILURE
common-none = none
common-old = { $age } old
common-orders = orders
common-pending = pending
common-persisted = persisted
common-reading = reading
common-reason = reason
common-state = STATE
common-stock = Stock
common-stream = STREAM
common-time = TIME
common-unknown = unknown
common-user = USER
common-verdict = verdict

## console

console-admission = ADMISSION
console-ago = { $span } ago
console-alive = alive
console-all-marked = all { $count } marked
console-and-more = and { $count } more
console-and-more-press-for-all = and { $count } more; press { KEY("sales") } for all
console-at-time-in = { $time }, in { $span }
console-attention = ALARMS
console-any-key-closes = any key closes
console-audit-failed = audit FAILED
console-audit-open = audit open
console-audit-passed = audit passed
console-audit-unknown = audit unknown
console-busy = busy
console-cause = { $cause ->
    [due] schedule
    [missed] catch-up
    [operator] manual
   *[other] { $cause }
}
console-command = Command
console-dead = dead
console-dismisses = { $error } ({ KEY("back") } to dismiss{ $more ->
        [0] {""}
       *[other] , { $more } more
    })
console-drains-in = drains in { $span }
console-duplicate = duplicate
console-ended-left = ended, { $left } left
console-ends-in = ends in { $clock }
console-from = from { $begin }
console-frozen = FROZEN
console-history = HISTORY
console-in = in { $span }
console-in-flight = { $orders } in flight
console-is-no-longer-listed = #{ $voucher } is no longer listed
console-jobs-have-not-been-loaded = The jobs have not been loaded yet.
console-kept = { $entries } kept
console-keys = Keys
console-left-waiting = { $left } left, { $waiting } waiting
console-locks-unknown = Locks are unknown: their Redis server is unreachable.
console-marked =
    { $count } marked{ $hidden ->
        [0] {""}
       *[other] , { $hidden } hidden
    }
console-max = max
console-next-by-schedule = { $next }   ({ $schedule })
console-no-end = no end
console-no-group = no group
console-no-lock-is-held = No locks are held.
console-no-matching-command = No matching command.
console-no-node = no node
console-no-open-alarms = No open alarms.
console-no-recent-requests-through = no recent requests on this node
console-no-row-contains-press = No row contains '{ $text }'. Press { KEY("back") } to clear the filter.
console-no-runs-yet = No runs yet.
console-no-sales-yet-press = No sales yet. Press { KEY("new-sale") } to create one.
console-not-in-redis = not in Redis
console-of-on-this-page = { $shown } of { $of } on this page
console-oldest = oldest { $span }
console-open-end = open end
console-orders-per-second = ORDERS PER SECOND
console-orphan = orphan
console-paused = paused
console-pending = PENDING
console-phase = { $phase ->
    [sold_out] sold out
   *[other] { $phase }
}
console-range-of = { $first }–{ $last } of { $total }
console-read-only = READ-ONLY
console-redis-is-unreachable-rows = Redis is unreachable: the rows are unknown. Retrying.
console-database-is-unreachable-rows = The database is unreachable: the rows are unknown. Retrying.
console-rejected = rejected
console-rush = LOAD TEST
console-shown-of = { $shown } of { $of }
console-since-for-depth = since { $since }, for { $span }, depth { $depth }
console-sold-out = sold out
console-starts = starts { $time }
console-starts-in = starts in { $clock }
console-stock = STOCK
console-there-is-no-guide = no demo or drill is running here
console-to = { $begin } to { $end }
console-unmarked = { $view ->
    [dead] { $count ->
        [one] 1 marked letter is no longer present; unmarked
       *[other] { $count } marked letters are no longer present; unmarked
    }
    [ledger] { $count ->
        [one] 1 marked sale is no longer listed; unmarked
       *[other] { $count } marked sales are no longer listed; unmarked
    }
   *[pending] { $count ->
        [one] 1 marked entry is no longer pending; unmarked
       *[other] { $count } marked entries are no longer pending; unmarked
    }
}
console-until = until { $end }
console-waiting-for-first-snapshot = Waiting for the first snapshot from the engine.
console-window-too-small-x-minimum = window too small: { $width }x{ $height }; minimum 60x15, full view 80x24
console-without-partitions = { $count ->
    [one] without partition { $numbers }
   *[other] without partitions { $numbers }
}

## context

context-always = Always
context-button = Form buttons
context-confirm = Confirmation
context-filter = Filter
context-form = Form
context-help = Help
context-palette = Commands
context-presenter = Presenter
context-views = All views

## conventions

conventions-all-are-marked-press = all are marked; press { KEY("mark-all") } to clear the marks
conventions-are-loaded-in-pages = { $total } rows are loaded in pages by ID; sorting works for a single page only
conventions-close-before-suspending = close this first; suspending also stops the node
conventions-closes-this-then-press-again = { $text }; press { $close } to close this, then { $again } again
conventions-copied = copied: { $what }{ $in_tmux ->
        [true] ; tmux forwards it only with '{ $setting }'
       *[false] {""}
    }
conventions-default-order-restored = default order restored
conventions-display-is-paused-press = the display is paused; press { KEY("freeze") } to resume before loading more
conventions-in = in { $views }
conventions-more-than-one-page = more than one page of rows: sorted by ID again
conventions-mouse = { $is_enabled ->
    [true] mouse enabled: it selects rows and tabs; disable it to select text in the terminal
   *[false] mouse disabled
}
conventions-no-details-are-open-press = no details are open; press { KEY("open") } to open them
conventions-no-row-is-selected-use = no row is selected; use { KEY("up") } and { KEY("down") }
conventions-no-sort-column-press = no sort column; press { KEY("sort-next") } to select one
conventions-pasted-text-was-truncated = the pasted text was truncated to { $kept } characters
conventions-question-has-just-appeared-read = the question has just appeared; read it, then press { KEY("accept") } again
conventions-read-only-mode-commands = read-only mode: commands are disabled; restart without --read-only
conventions-select-sale-with-and-then = select the sale with { KEY("up") } and { KEY("down") }, then press { $again } again
conventions-sorted = { $is_descending ->
    [true] sorted by { $head }, descending
   *[false] sorted by { $head }, ascending
}
conventions-sorted-by-of-these = sorted by { $head } within these { $rows }
conventions-stream-is-always-in-delivery = the stream is always in delivery order
conventions-these-rows-cannot-be-sorted = these rows cannot be sorted
conventions-this-affects-type-that-number = this affects { $count }: type that number, then press { KEY("press") }
conventions-this-view-has-no-table = this view has no table
conventions-type-to-confirm = Type { $count } to confirm
conventions-used-before = recently used

## demo

demo-audit-failed = AUDIT FAILED
demo-audit-failed-text = { $finding }. Press q to end the demo.
demo-audit-passed = AUDIT PASSED
demo-audit-passed-text = { $pieces } admitted, { $pieces } written to SQL, stock 0 in both. Next: a second sale, with a failure.
demo-consumer-unresponsive = the consumer does not respond; run 'seckill doctor' to check its servers
demo-countdown = SALE STARTS SOON
demo-countdown-text = { $buyers } buyers, { $pieces } pieces. No order is admitted before the start time, measured by Redis time.
demo-json-needs-headless = --json requires --headless
demo-load-test-failed = the load test failed: { $why }
demo-load-test-text = Redis admits in batches; one in { $one_in } buyers sends a duplicate request, which gets no second order. The consumer is paused: the lag grows.
demo-name = demo
demo-next = Next: 'seckill drill' practises a recovery, 'seckill sale create' starts a sale of your own.
demo-no-servers = the { $what } runs on temporary servers and keeps no data; omit { $flag }
demo-node-dead-text = { $DYING_NODE } died holding { $stuck ->
    [one] 1 order
   *[other] { $stuck } orders
}: admitted, but not in SQL. Press 4 to list them, A to plan the recovery, y to apply it.
demo-peak-load = PEAK LOAD
demo-rate = benchmark: orders per second
demo-rate-of-the-tutorial = benchmark: tutorial's consumer
demo-ratio = times as fast
demo-recovered = RECOVERED AND VERIFIED
demo-recovered-text = { $stuck ->
    [one] 1 order
   *[other] { $stuck } orders
} recovered, { $all } in SQL, each verified by ID. No order lost, none duplicated. Press q to end the demo.
demo-sale-title = hot pot 50% off
demo-script-failed = The demo failed: { $why }
demo-second-sale-title = milk tea 9.9
demo-sold-out = SOLD OUT
demo-sold-out-text = None is sold twice. The consumer catches up in slow steps of { $batch } orders; meanwhile the demo holds a lock that its watchdog renews (LOCKS).
demo-timeout = the { $what } timed out after waiting one minute for its orders; run 'seckill doctor' to check this machine
demo-title = DEMO

## director

director-armed = LAUNCH { $left }
director-arms-one = no launch is scheduled; press { KEY("arm") } to schedule one
director-cancelled-was-not-started-nothing = cancelled: { $subject } was not started, nothing was changed
director-console-was-suspended = the console was suspended and missed the launch time by { $late }
director-countdown-in-seconds = countdown in seconds, 1 to 3,600
director-database-is-unreachable = the database is unreachable
director-database-rejects-writes = the database rejects writes
director-events =
    { $start }
    Then { $buyers ->
        [one] { $buyers } buyer arrives
       *[other] { $buyers } buyers arrive
    } { $seconds ->
        [0] unthrottled
       *[other] within { $seconds } s
    }{ $twice ->
        [0] {""}
       *[other] , { $twice } of them repeat
    }.
    The orders are real and consume stock.
director-id-of-planned-sale = ID of a planned sale, or a new title
director-is-not-planned-sale-enter = #{ $id } is not a planned sale; enter a title to create one
director-launch-is-scheduled-press = a launch is scheduled; press { KEY("abort") } to cancel it first
director-launch-of-cancelled-nothing = launch of { $subject } cancelled, nothing was started: { $why }; press { KEY("arm") } to schedule another
director-leave-this-empty-for-planned = leave this empty for a planned sale: its stock is set
director-new-sale = new sale '{ $title }'
director-no-launch-is-scheduled-and-no-load = no launch is scheduled and no load test is running
director-no-requests-will-be-sent = no requests will be sent; the sale is paused as soon as it starts
director-opening = OPENING
director-pieces =
    { $title }, { $count ->
        [one] { $count } piece
       *[other] { $count } pieces
    }
director-pieces-of-new-sale = pieces of a new sale, or empty
director-redis-is-unreachable = Redis is unreachable
director-redis-rejects-writes = Redis rejects writes
director-sale = Sale
director-sale-is-being-started-load = the sale is being started; the load test follows
director-sale-is-created-with-pieces =
    The sale '{ $title }' is created with { $count ->
        [one] { $count } piece
       *[other] { $count } pieces
    } and opens immediately.
director-sale-is-no-longer = the sale is no longer in the planned state
director-sale-starts-by-itself = the sale starts by itself in { $left }; enter a lower value
director-sale-starts-by-itself-before = the sale starts by itself before the countdown ends
director-schedule-launch = Schedule a launch
director-scheduled-starts-in-s-press = scheduled: { $subject } starts in { $seconds } s; press { KEY("abort") } to cancel
director-several-load-tests-are-running = several load tests are running; select a sale with { KEY("up") } and { KEY("down") }, then press { KEY("abort") } again
director-spread-over-so-many-seconds = duration in seconds; 0: no limit
director-start-in = Start in
director-starts-with-pieces-before =
    #{ $id } starts with { $count ->
        [one] { $count } piece
       *[other] { $count } pieces
    }, before its planned time.
director-stock-changed = the stock changed from { $asked } to { $now }
director-with-buyers =
    { $subject }, { $buyers ->
        [one] { $buyers } buyer
       *[other] { $buyers } buyers
    }
director-within = Within

## done

done-applied = { $done } of { $planned ->
    [one] 1 entry
   *[other] { $planned } entries
} already processed; apply the same plan to continue
done-claimed = { $done ->
    [one] 1 entry
   *[other] { $done } entries
} already transferred; run it again for the rest
done-discarded = { $done ->
    [one] 1 dead letter
   *[other] { $done } dead letters
} already discarded; run it again for the rest
done-nothing-in-sql = the stock in SQL is unchanged; pieces that were taken out of Redis return once it is reachable and a node runs
done-removed = already removed from partition { $partitions }; run it again for the rest
done-repaired = { $done } of { $planned ->
    [one] 1 sale
   *[other] { $planned } sales
} already repaired: { $sales }; run it again for the rest
done-replayed = { $done ->
    [one] 1 dead letter
   *[other] { $done } dead letters
} already replayed; run it again for the rest
done-rewound = the groups of partition { $partitions } were already rewound; run it again for the rest

## drill

drill-aborted = the drill was aborted, so there is no result
drill-about = { $drill ->
    [consumer-killed] a node dies while it holds a batch of orders
    [poison] invalid entries among valid ones
    [database-away] the database refuses connections during a load test
    [redis-away] Redis is killed during a load test
    [group-destroyed] the consumer group is destroyed with its pending entries
    [stream-trimmed] the stream is trimmed under the pending entries of a dead node
    [duplicates] a producer adds entries a second time
    [clock-step] the clock of the order IDs steps 25 h ahead, and back
   *[other] { $drill }
}
drill-check = { $drill ->
    [consumer-killed] SQL holds the orders of the dead node, each exactly once
    [poison] SQL holds every valid order and no invalid one
    [database-away] SQL holds the orders admitted during the outage
    [redis-away] the load test continued: SQL holds more orders than before
    [group-destroyed] SQL holds the orders that the group lost, each exactly once
    [stream-trimmed] SQL holds the rebuilt orders, each exactly once
    [duplicates] no order was written twice
    [clock-step] order IDs increased through both steps, without duplicates
   *[other] { $drill }
}
drill-check-admitted-in-sql = every admitted order is in SQL
drill-check-audit = audit passed: all orders accounted for
drill-check-no-dead-letters = there are no dead letters
drill-check-plan = the plan covers every affected entry
drill-check-repaired = the fault was repaired
drill-check-seen = the screen showed the fault
drill-check-settled = no orders are in flight
drill-debriefing = The fault: { $about }. { $text }
drill-done = done
drill-exam = FIND THE FAULT
drill-exam-text = Find what went wrong, and repair it if you have to. Press { KEY("guide-next") } for a hint.
drill-failed = FAILED
drill-failed-text = Failed: { $wrong }. Press q to end the drill.
drill-false = FALSE
drill-fault = { $drill ->
    [consumer-killed] node-b died holding { $n } orders. ALARMS reports it with the count; view 4 lists the entries.
    [poison] { $n } invalid entries were added among valid ones. ALARMS counts the dead letters; view 5 lists them.
    [database-away] The database refuses connections for a while. ALARMS reports it; view 3 shows the lag.
    [redis-away] Redis was killed during the load test. ALARMS reports it; view 0 lists when.
    [group-destroyed] The consumer group was destroyed with its pending list. ALARMS reports it; view 3 shows no consumer.
    [stream-trimmed] node-b died with { $n } entries, and the stream lost their bodies. View 4 shows each as: body gone.
    [duplicates] { $n } entries were added to the stream a second time. View 3 shows them as lag.
    [clock-step] The clock of the order IDs stepped 25 h ahead, then back, with sales in between. View 7 lists the IDs.
   *[other] { $drill }
}
drill-found = details opened after
drill-get-ready = GET READY
drill-get-ready-text = { $STOCK } pieces go on sale shortly. Use --data-dir { $dir } to work here from another terminal.
drill-hints = hints
drill-hints-of = { $hints } of { $all }
drill-load-test-text = { $users } buyers request { $STOCK } pieces.
drill-load-test-title = LOAD TEST
drill-more-sales-text = Two more sales follow. Watch them.
drill-name = drill
drill-never = never
drill-of-seed = { $drill }, seed { $seed }
drill-passed = PASSED
drill-passed-text = Every order was verified by its ID. Press q to end the drill.
drill-redis-not-killed = cannot kill Redis: { $why }
drill-redis-not-managed = it was not started by this program; omit --redis
drill-redis-without-pid = it does not report its process ID
drill-remedy = { $drill ->
    [consumer-killed] Press 4 to list its entries, A to plan, y to apply. Pending must drop to 0.
    [poison] Press 5, then * and D to discard; or: seckill --data-dir { $dir } dead discard --all
    [database-away] No action needed: orders wait in the stream and are written once the database is back.
    [redis-away] No action needed: the next process that needs Redis restarts it. Buyers get delayed replies.
    [group-destroyed] No action needed: the node recreates it and reads the stream again; orders in SQL are acknowledged.
    [stream-trimmed] In view 4, press A to plan a rebuild from the buyers, y to apply it. The node waits for you.
    [duplicates] No action needed: each one exists in SQL and is acknowledged, so no order is written twice.
    [clock-step] No action needed: the IDs in view 7 increase through both steps, without duplicates.
   *[other] { $drill }
}
drill-repaired = { $drill ->
    [consumer-killed] no pending entries
    [poison] no dead letter is left
    [database-away] ALARMS: the database is reachable again, with the length of the outage
    [redis-away] ALARMS: Redis is reachable again, with the length of the outage
    [group-destroyed] the group exists again, no pending entries, no lag
    [stream-trimmed] no pending entries
    [duplicates] no lag and no pending entries
    [clock-step] sales continued through both steps
   *[other] { $drill }
}
drill-repaired-after = recovered after
drill-report-failed = FAILED.
drill-report-passed = Passed.
drill-script-failed = The drill failed: { $why }
drill-seen = seen
drill-solved = RECOVERED
drill-solved-text = Now read the proof: the audit of every order in the Ledger.
drill-symptom = { $drill ->
    [consumer-killed] ALARMS: a dead consumer holds { $n ->
        [one] 1 entry
       *[other] { $n } entries
    }
    [poison] ALARMS: { $n ->
        [one] 1 dead letter waits
       *[other] { $n } dead letters wait
    } for review
    [database-away] ALARMS within 2 s: the database is unreachable
    [redis-away] ALARMS: Redis was unreachable
    [group-destroyed] ALARMS: the stream has no consumer group
    [stream-trimmed] a dead consumer holds { $n ->
        [one] 1 entry
       *[other] { $n } entries
    }, and the stream has lost their bodies
    [duplicates] STREAM: a lag of { $n }
    [clock-step] no alarm, and a passed audit after both steps
   *[other] { $drill }
}
drill-title = { $drill ->
    [consumer-killed] NODE FAILURE
    [poison] POISON
    [database-away] DATABASE OUTAGE
    [redis-away] REDIS KILLED
    [group-destroyed] CONSUMER GROUP LOST
    [stream-trimmed] STREAM TRIMMED EARLY
    [duplicates] DUPLICATE ENTRIES
    [clock-step] CLOCK STEPS
   *[other] { $drill }
}
drill-todays-tea = today's tea
drill-tomorrows-tea = tomorrow's tea
drill-true = true

## durability

durability-confirmed = no acknowledged admission, provided that the promoted replica confirmed it
durability-damage = possibly everything: the database may be damaged
durability-half-minute = half a minute of admissions, except those already in SQL
durability-last-commits = orders committed to SQL in the last second; 'seckill audit' lists them, and --repair writes them again while Redis holds their buyers
durability-last-seconds = the last two seconds of admissions, except those already in SQL
durability-nothing = nothing
durability-put-back = nothing while the nodes live and respond: each restores its admissions of the last 30 s
durability-standstill = no orders, only downtime: no replica is promoted, so sales wait until the server is back
durability-undelivered = every admission that is not in SQL yet
durability-unknown = unknown: the settings could not be read
durability-unmanaged = unknown: this URL names one server. No orders, only downtime, unless a proxy or an operator promotes a replica: then what the failed primary had not replicated, if no node that admitted it lives
durability-unsent = what the failed primary had not replicated, unless the node that admitted it lives and restores it
durability-waiting = orders that waited for SQL for over 30 s; SQL and the nodes restore the others

## error

error-audit-failed = audit failed: { $finding }
error-broke-off = { $why }; { $done }
error-busy = too many commands are queued in the engine; try again in a moment
error-foreign-redis = the keys in Redis at { $address } belong to another database; use the --database that belongs to them, or an empty Redis
error-has-started = sale #{ $sale } has already started
error-is-paused = sale #{ $sale } is paused; resume it instead
error-long-reason = the reason has { $characters ->
    [one] 1 character
   *[other] { $characters } characters
} ({ $bytes ->
    [one] 1 byte
   *[other] { $bytes } bytes
}), but the audit log allows { $most } characters ({ $most_bytes } bytes); shorten it
error-lost-in-sql = SQL has lost sale #{ $sale }, which Redis still has: no buyer is admitted, and its orders wait; run 'seckill audit --repair', which restores it from Redis
error-name-taken = a node named '{ $name }' is already alive; choose another name with 'node' in the config file
error-no-job = there is no job '{ $job }'; see 'seckill jobs list'
error-not-held = Redis lacks some data of sale #{ $sale }, so the unsold stock is unknown; a running node reconciles it within a second ('seckill work' runs one)
error-not-loaded = the change of sale #{ $sale } is committed in SQL, but not yet in { $count ->
    [0] Redis
    [one] shard { $shards }
   *[other] shards { $shards }
} ({ $why }). A running node ('seckill work') delivers it
error-operator-just-finished = the command of another operator has just ended; run the same command again
error-other-operator = another operator is running a command ({ $who }); wait until it ends. If its process is dead, { $seconds ->
    [0] run 'seckill locks release operator' first
   *[other] run the same command again in { $seconds } s, when its lock ends, or run 'seckill locks release operator' first
}
error-other-sale = Redis and SQL hold different sales under ID { $sale }; use the --database that belongs to this Redis, or run 'seckill audit --repair' to replace the sale in Redis
error-oversold = sale #{ $sale } has more buyers in Redis than pieces and stays closed; add the missing pieces with 'seckill sale restock', then run 'seckill audit --repair'
error-read-only = read-only: commands are rejected; start without --read-only to make changes
error-reconciling = '{ $key }' is being reconciled with SQL and is not ready yet; try again
error-second-redis = this database was in use with another Redis within the last minute, and Redis at { $address } has none of its keys: check --redis; if this one has replaced the other, repeat the command in { $seconds } s
error-shards = { $shards } shards need as many partitions, and this deployment has { $most }; choose fewer, or stop all nodes and start one with 'seckill work --partitions { $shards }'
error-short = cannot remove { $by ->
    [one] 1 piece
   *[other] { $by } pieces
} from sale #{ $sale }: only { $left } unsold; remove fewer, or end the sale
error-sql-behind = SQL lacks the last changes of sale #{ $sale }, which Redis has; run 'seckill audit --repair', which copies the sale from Redis to SQL, then repeat the command
error-stopped = the engine has stopped; quit and restart seckill
error-stopping = the engine is stopping; try again once it is running
error-unchecked = whether Redis has a newer version of sale #{ $sale } is unknown: it does not reply, refuses commands, or has lost a part of the sale. Nothing was changed; repeat the command once 'seckill status' passes

## event

event-clock-skew = the clock of Redis is { $seconds } s { $side ->
    [ahead] ahead of
   *[behind] behind
} that of { $of ->
    [database] the database
   *[node] node { $node }
}
event-dead-holds = dead, holds { $pending ->
    [one] 1 entry
   *[other] { $pending } entries
}
event-dead-letters = { $count } waiting for review
event-foreign-key = holds a { $holds } that seckill did not write
event-lag = lag of { $lag ->
    [one] 1 entry
   *[other] { $lag } entries
}, draining slowly or not at all
event-lasted = after { $seconds } s
event-no-group = missing
event-no-heartbeat = no heartbeat for { $seconds } s; live nodes take over its entries
event-node-back = a heartbeat again, { $seconds } s after the last one
event-omitted = { $lines ->
    [one] 1 line
   *[other] { $lines } lines
} omitted within a minute; the log file has all of them
event-orders = { $orders ->
    [one] 1 order
   *[other] { $orders } orders
}
event-sale-mended = fields of the sale in Redis did not match SQL and were set back; they were { $fields }
event-run-failed = last run failed: { $why }
event-silent-holds = idle, holds { $pending ->
    [one] 1 entry
   *[other] { $pending } entries
}
event-stopped = normal shutdown
event-time-zone = cron expressions follow { $to }, previously { $from }: this node is configured for it
event-unconfirmed = only { $replicas } of { $wanted } replicas confirm orders
event-unknown-holds = not a known node, holds { $pending ->
    [one] 1 entry
   *[other] { $pending } entries
}
event-zones-differ = nodes want different time zones: { $zones }

## export

export-and-following-names-exist-move = { $path } and the following names exist; move some of the files, or pass another { $DIR_FLAG }
export-cannot-write-fix = cannot write { $path } ({ $why }); fix that, or pass another { $DIR_FLAG }
export-export = Export
export-export-failed-try-again = the export failed; try again
export-format =
    { $format ->
        [txt] the screen as text
        [ansi] the screen as text with colours (ANSI)
        [svg] the screen as an image (SVG)
        [csv] the table as CSV
       *[json] the table as JSON
    }
export-frames-bytes-on-average-last = { $frames } frames, { $mean } bytes on average, last { $last }
export-into = into { $dir }
export-no-rows = no rows
export-of-rows = { $rows } of { $total } rows
export-rows =
    { $rows ->
        [one] { $rows } row
       *[other] { $rows } rows
    }
export-rows-there-are-more = { $rows } rows, more exist
export-table-not-as-json = cannot export the table as JSON ({ $why }); use CSV
export-the-working-directory = the working directory
export-there-are-no-rows = there are no rows to export; export the screen instead
export-writing-the-file = writing the file
export-written-to = written to { $path }
export-written-to-loaded-rows-only = { $rows } written to { $path }; loaded rows only

## faults

faults-cannot-be-negated-works = { $field } cannot be negated; '!' works with user=, voucher=, status= and states such as unpaid
faults-clock = the clock reads { $seconds } s since 1970, outside 2022 to 2090, the range of order IDs; set the clock
faults-entry-id = '{ $text }' is not a stream entry ID; an ID looks like 1795000000000-0
faults-field-garbage = field { $field } holds '{ $value }', which is not a number
faults-field-is-never-use-one = the field { $field } is never '{ $value }'; use one of { $words }
faults-field-missing = field { $field } is missing
faults-foreign-key = the Redis key '{ $key }' holds a { $holds } that seckill did not write; rename it (RENAME { $key } { $aside }), then run 'seckill audit --repair'
faults-foreign-lock = the Redis key '{ $key }' holds a { $holds } that seckill did not write; rename it (RENAME { $key } { $aside })
faults-is-not-valid-for-field = '{ $value }' is not valid for the field { $field }, which takes { $takes }
faults-is-not-valid-takes-number = { $field }='{ $value }' is not valid; { $field } takes a number
faults-limit = a limit of { $limit } orders per user is not allowed; enter 1 to { $most }
faults-no-buyer-in-redis = no buyer in Redis was admitted with this order ID
faults-not-a-number = string that is not a number
faults-order-bought-again = the order was given back: buyer { $user } has bought again since, order { $order }
faults-order-closed-later = a later order of buyer { $user }, { $order }, is closed
faults-order-gone = the entry is no longer in the stream
faults-order-foreign = a row with the ID { $row }, which another program has inserted, is at the place of buyer { $user } for voucher { $voucher }
faults-order-holds = buyer { $user } already holds order { $holds } for voucher { $voucher }
faults-order-id = '{ $text }' is not an order ID; an ID is a decimal number of up to 19 digits
faults-order-id-taken = the order ID { $order } belongs to another order
faults-order-promised = admitted before Redis lost data; the buyer now holds order { $order }
faults-order-refused = the database rejected it: { $reason }
faults-order-status = '{ $text }' is not an order status; use unpaid, paid, used, cancelled or closed
faults-order-time = no order can be from { $at }; order IDs express times from 2022 to 2090
faults-order-too-often = { $times ->
    [one] delivered once without an order
   *[other] delivered { $times } times without an order
}
faults-order-unkept = admitted before Redis lost data; no stock is left for it
faults-order-window = no order can be admitted at or after { $from } and before { $to }; swap the two times
faults-over = the end of the sale, { $end }, is in the past; enter a later time
faults-phone = '{ $text }' is not a mobile phone number; it has 11 digits
faults-place = '{ $place }' is not a buyer with an optional place; write for example 7 or 7/2
faults-query-field = orders cannot be searched by '{ $field }'; use id, user, voucher, status, from or to
faults-query-term = '{ $term }' is not a search term; write an order ID, or for example user=1001, voucher=7, paid, !status=paid, from=14:30, to=-5m
faults-query-twice = { $field } is given twice; remove one
faults-range = { $name } is { $value }; it must be between { $least } and { $most }
faults-restock = the stock cannot change by { $by }; enter 1 to { $most } to add, or -1 to -{ $most } to remove
faults-role = '{ $text }' is not a role; the only one is operator
faults-rules = the rules must have 1 to { $most } characters; line breaks are the only control characters allowed
faults-sale-state = '{ $text }' is not a sale state; use running, paused, ended or archived
faults-sequence = today's 4,294,967,295 order IDs are used up; wait for the next UTC day
faults-shard = '{ $text }' is not a shard; it is VOUCHER/COUNT, for example 7/3
faults-shard-id = '{ $text }' is not a shard; it is VOUCHER or VOUCHER.SHARD, for example 7.3
faults-shards = { $shards } shards are not allowed; enter 1 to { $most }
faults-shards-pieces = { $shards } shards need at least one piece each, and the stock is { $stock }; choose fewer
faults-stock = a stock of { $stock } is not allowed; enter 1 to { $most }
faults-sub-title = the subtitle must be one line of 1 to { $most } characters without control characters
faults-takes-entry = an ID such as 1795000000000-0
faults-takes-number = a whole number
faults-takes-span = a duration such as 250ms, 90s, 5m or 2h
faults-takes-text = text
faults-term = '{ $term }' is not a filter term; write for example 'idle>30s', with one of = != < > ~ !~
faults-term-field = there is no field '{ $name }' to filter by; use { $known }
faults-term-test = the field { $field } does not support '{ $test }'; use one of { $takes }
faults-there-is-no-sale = there is no sale of voucher { $voucher }
faults-there-is-no-shard = { $shard ->
    [0] the entry names no shard, but voucher { $voucher } is sold over shards
   *[other] the sale of voucher { $voucher } has no shard { $shard }
}
faults-time = '{ $text }' is not a time; write 2026-11-20T14:30:00Z, '2026-11-20 14:30' (local time), 14:30 (today), +10m or -10m
faults-time-skipped = { $text } does not exist in this time zone, where the clocks skip that hour; write another time, or one with its offset
faults-time-twice = { $text } exists twice in this time zone, where the clocks repeat that hour; write { $first } or { $second }
faults-title-control = the title contains a control character (line break, tab or escape); remove it
faults-title-empty = the title is empty; enter 1 to { $most } characters
faults-title-heavy = the title has { $bytes } bytes, mostly combining characters; at most { $most } are allowed
faults-title-long = the title has { $length } characters; at most { $most } are allowed
faults-voucher-has-no-stock-left = voucher { $voucher } has no stock left in SQL for this order
faults-voucher-id = '{ $text }' is not a voucher ID (a positive number); list the sales to see their IDs
faults-voucher-status = '{ $text }' is not a voucher status; use on, off or expired
faults-window = the sale ends ({ $end }) before it begins ({ $begin }); swap the two times
faults-zone = TZ names the time zone '{ $zone }', which is not known here; set it to one like Asia/Shanghai, or unset it

## field

field-address = address
field-answers = answers
field-connections = connections
field-entry = entry
field-held = held
field-holder = holder
field-latency = latency
field-lease = lease
field-limited = limited
field-lock = lock
field-next = next
field-notice = notice
field-order = order
field-owner = owner
field-persisted = persisted
field-repair = repair
field-result = result
field-sale = sale
field-task = task
field-token = token
field-top-addresses = top addresses
field-top-users = top users
field-window = window

## figures

figures-0-s = 0.{ $tenths } s
figures-d = { $days } d
figures-h = { $hours } h
figures-min = { $minutes } min
figures-s = { $seconds } s

## forms

forms-begin = Begin
forms-change = Change
forms-distinct-users = distinct users, 1 to 10,000,000
forms-empty-none-1h = empty: none; 15:00, +1h, 2026-11-20 15:00
forms-empty-now-10m = empty: now; 14:30, +10m, 2026-11-20 14:30
forms-give-to = enter { $least } to { $most }
forms-go-on = Continue
forms-is-not-integer = enter a whole number
forms-limit = Limit
forms-new-sale = New sale
forms-orders-per-user = orders per user, 1 to 20
forms-parts-of-the-stock = 1 to 64, at most the number of partitions
forms-percentage-that-requests-twice = repeat buyers, in percent
forms-pieces-on-sale = pieces on sale
forms-pieces-to-add-or-remove = pieces: 500 adds, -20 removes unsold ones
forms-plan-appears-here-once-both = The plan appears here once both numbers are valid.
forms-restock = Restock { $sale }
forms-rush-on = Load test on { $sale }
forms-shards = Shards
forms-title = Title
forms-twice = Repeats
forms-what-buyers-read = shown to buyers

## group

group-alive = the node of '{ $name }' is alive and would recreate the consumer; stop the node, or wait until it counts as dead
group-and-more = { $names } and { $more } more
group-changed = partition { $partition }: { $change } in the meantime, so nothing was changed there; try again
group-consumer-gone = consumer '{ $name }' no longer exists in partition { $partition }; see 'seckill stream show'
group-created = the consumer group was created
group-destroyed = the consumer group was destroyed
group-first-trimmed = the first entry was trimmed or deleted
group-forward = { $to } is after { $delivered }, the last entry delivered to the group of partition { $partition }; a rewind cannot move it forward, because that would skip orders
group-holds = '{ $name }' still holds { $pending ->
    [one] 1 entry
   *[other] { $pending } entries
} of partition { $partition }, which would be lost; process them with 'seckill pending apply --filter holder={ $name }' or move them with 'seckill stream claim --from { $name } --to CONSUMER'
group-idle = consumer '{ $name }' does not belong to a live node, so entries transferred to it would not be processed; choose another one, or pass --force
group-moved-back = the consumer group was rewound
group-no-consumer = there is no consumer '{ $name }' in any partition; existing consumers: { $existing }
group-no-consumer-in = there is no consumer '{ $name }' in partition { $partition }; existing consumers: { $existing }
group-no-partition = partition { $number } does not exist; the last one is { $last }
group-no-stream = the order stream of partition { $number } is missing or empty, so nothing can be delivered; see 'seckill stream show'
group-none = none
group-nothing = no entry of partition { $number } would be redelivered: there is none between that position and the last delivered entry; see 'seckill stream show'
group-nothing-to-claim = nothing to claim: none of these entries is pending with a consumer other than '{ $to }'; see 'seckill pending list'
group-nothing-to-claim-from = nothing to claim: '{ $from }' holds no entries that '{ $to }' does not hold; see 'seckill pending list'
group-other-partition = entry { $entry } is not in partition { $partition }; omit --partition, or pass the partition of the entry
group-position = '{ $text }' is not a position in the stream; write start, an entry ID such as 1795000000000-0, or a time: 2026-11-20T14:30:00Z, '2026-11-20 14:30' (local time), 14:30 (today), -10m
group-trimmed = { $gone ->
    [one] 1 older entry was
   *[other] { $gone } older entries were
} trimmed or deleted in partition { $partition } and cannot be redelivered; the earliest position is { $first }, or '--to start'

## http

http-admitted = order placed
http-body = the request body is incomplete
http-busy = too many requests at the moment; try again shortly
http-changed = the sale was changed at the same time; try again
http-defect = internal error; the server log states the cause
http-duplicate = you already hold an order for this voucher
http-ended = the sale has ended
http-failed = the HTTP server failed ({ $error })
http-files = the limit of open files ({ $limit }) leaves none for connections of clients; raise it with ulimit -n, or LimitNOFILE= in a unit of systemd
http-json = the request body is not the expected JSON ({ $why })
http-limited = too many requests; wait a moment
http-listen = cannot listen on { $address } ({ $error }); pass another address with --listen or --admin-listen, or stop the program that uses this one
http-login-limited = too many login codes for this phone number, from this address, or in all; try again in { $seconds ->
    [one] 1 second
   *[other] { $seconds } seconds
}
http-network = '{ $text }' is not a network of addresses; use one such as 10.0.0.0/8 or 2001:db8::/32, or a single address
http-no-login = there is no login by code on this server; an operator can start it with --demo-login
http-no-order = you have no such order
http-no-path = no such path; check the address of the request
http-no-session = not logged in, or the session has expired; log in again
http-no-stream = the order stream is missing; try again shortly
http-no-voucher = no such voucher
http-not-allowed = only an operator may do this; send the token of an operator
http-not-loaded = this voucher is not on sale
http-not-started = the sale has not started yet
http-one-address = nearly all requests come from { $address }, which is treated as one client; if this is a proxy, add it to http.trusted_proxies
http-path = the path is invalid; check the address of the request
http-paused = the sale is paused
http-pay-closed = the order is closed and cannot be paid
http-pay-dead = the order could not be processed and cannot be paid yet
http-pay-queued = the order is still being written; try again shortly
http-pay-returned = the sale of the order goes back to the service that it came from; pay the order there once that has finished
http-sale-not-on = a flash sale sells whatever the status of its voucher; leave out the status, and set the begin
http-shop = a shop ID is a decimal number
http-slow-body = the request body did not arrive in time
http-sold-out = sold out
http-tls = cannot use { $path } for TLS ({ $reason }); pass a certificate and its key in PEM format
http-too-large = the request body is too large
http-unavailable = the service is unavailable at the moment; try again shortly
http-unavailable-closed = the sale is closed until an operator has repaired it
http-unavailable-database = the database is unavailable at the moment; try again shortly
http-unavailable-late = the request was not answered in time; try again shortly
http-unavailable-reconciling = orders that Redis lost are being reconciled; try again shortly
http-unavailable-redis = Redis is unavailable at the moment; try again shortly
http-unavailable-stopping = this server is stopping; try again shortly
http-unavailable-unconfirmed = the order is not confirmed yet; try again shortly
http-uncertain = the outcome is unknown; check it before you repeat the request
http-undecided = the request cannot be decided at the moment; try again shortly
http-voucher-status = the status of a voucher is 1 (on), 2 (off) or 3 (expired)
http-voucher-type = the type of the voucher does not match the path: 0 is ordinary, 1 is a flash sale
http-wrong-code = the code is wrong or has expired; request a new one
http-wrong-method = this path does not accept this method

## job

job-about = { $job ->
    [archive-sales] remove sales that ended long ago from Redis; SQL keeps them
    [check-ledger] audit every order by its ID
    [close-overdue] close unpaid orders past their deadline and return their pieces
    [drop-id-keys] delete the order ID counters of past days
    [trim-stream] trim entries that every group has acknowledged, old dead letters and history
   *[other] { $job }
}
job-archived = archived { $sales }
job-balanced = audit passed
job-closed = closed { $orders ->
    [one] 1 order
   *[other] { $orders } orders
}, returned { $given_back ->
    [one] 1 piece
   *[other] { $given_back } pieces
} to stock
job-archived-partly = archived { $rows ->
    [one] 1 sale
   *[other] { $rows } sales
}; left out: { $left_out }
job-closed-partly = closed { $orders ->
    [one] 1 order
   *[other] { $orders } orders
}, returned { $given_back ->
    [one] 1 piece
   *[other] { $given_back } pieces
} to stock; left out: { $sales }; correct this in the database; 'seckill audit' finds a wrong stock
job-known = job '{ $job }' was not run: a run for this time or a later one exists; see 'seckill jobs history { $job }'
job-left-out = sale #{ $sale } ({ $why })
job-lock-lost = cancelled: its lock was lost
job-node-lost = the node died or was unresponsive for too long
job-node-stops = cancelled: its node is stopping
job-order-left-out = order { $order } of sale #{ $sale }{ $more ->
    [0] {""}
   *[other] {" "}and { $more } more of this sale
} ({ $why })
job-ordinary-left-out = order { $order } of an ordinary voucher{ $more ->
    [0] {""}
    [one] {" "}and { $more } other
   *[other] {" "}and { $more } others
} ({ $why })
job-orphan = { $node } holds '{ $lock }' but sends no heartbeat; wait up to { $seconds } s until the lock expires, or release it with 'seckill locks release { $lock }'
job-outcome = { $outcome ->
    [cancelled] cancelled
    [failed] failed
    [lost] lost
    [running] running
   *[done] done
}
job-panicked = panicked: { $message }
job-runs = already running on { $node }; wait until it ends, see 'seckill jobs history'
job-still-running = { $cancelled }; still running
job-too-long = cancelled: it exceeded its time limit of { $seconds } s
job-trimmed = trimmed { $entries ->
    [one] 1 entry
   *[other] { $entries } entries
}, { $runs ->
    [one] 1 job run
   *[other] { $runs } job runs
}
job-trimmed-consumers = , consumers of dead nodes: { $consumers }
job-trimmed-held = ; entries from { $held } on are not acknowledged yet
job-trimmed-letters = , { $letters ->
    [one] 1 dead letter
   *[other] { $letters } dead letters
}

## lab

lab-aggregate-columns = design | samples | average | median | 90 % | 95 % | 99 % | min | max | error % | requests/s | requests/s, times the first | average, times the first
lab-aggregate-title = Aggregate report (times in ms)
lab-alone = only the lab is open here; press { KEY("quit") } to quit, and run 'seckill' for the console
lab-ask-hand-over = How do orders reach SQL without making buyers wait?
lab-ask-locks = Which lock stays correct when its holder fails?
lab-ask-one-order = How does each user get at most one order?
lab-ask-overselling = How does a sale never exceed its stock?
lab-broken = { $promise }: { $count } of { $seeds }
lab-called-at = called at { $micros } us
lab-cancelled = the lab was cancelled; its servers are stopped and their files removed
lab-column-average = average ms
lab-column-breaks = breaks
lab-column-broken = broken promises (seeds)
lab-column-design = design
lab-column-errors = errors %
lab-column-lost = lost
lab-column-mended-by = fixed by
lab-column-orders = orders
lab-column-oversold = oversold
lab-column-per-second = requests/s
lab-column-question = question
lab-column-ratio-average = × first
lab-column-ratio-per-second = × first
lab-column-source = source
lab-column-two-orders = two orders
lab-column-unsold = unsold
lab-columns = design | orders | oversold | users with two orders | unsold | lost | SQL per request | Redis per request | seeds with a broken promise
lab-cron-column-expression = cron expression
lab-cron-column-meaning = meaning
lab-cron-column-next = next times
lab-cron-last-day = on the last day of each month at 02:30
lab-cron-last-friday = on the last Friday of each month at 10:15
lab-cron-last-weekday = on the last weekday of each month at 18:00
lab-cron-nearest-weekday = on the weekday nearest to the 15th at 08:00
lab-cron-third-friday = on the third Friday of each month at 09:00
lab-cron-time = { $at } { $day ->
        [1] Mon
        [2] Tue
        [3] Wed
        [4] Thu
        [5] Fri
        [6] Sat
       *[7] Sun
    }
lab-cron-two-seconds = every two seconds
lab-database = { $database } was not started: { $reason }
lab-engine-voucher = the sale of the engine has the voucher ID { $number }, which the lab does not expect
lab-entry-malformed = the entry is not an order
lab-few-requests = Each incident to the holder of a lock has a run of its own, with at most { $buyers } buyers, { $concurrency } concurrent requests, and stock for all.
lab-field-counts = counts
lab-field-design = design
lab-field-failed = failed
lab-field-mended = fixed by
lab-field-question = question
lab-field-source = source
lab-field-speed = speed
lab-field-verdict = verdict
lab-field-why = why
lab-form-apply = Apply
lab-form-buyers = distinct users, 1 to 10,000
lab-form-first = 1st seed
lab-form-first-hint = determines the order of requests and think times
lab-form-incidents = Incidents
lab-form-incidents-hint = all, none, or names separated by commas
lab-form-instances = Instances
lab-form-instances-hint = processes that serve the requests in turn
lab-form-no-incident = there is no incident '{ $name }'; write all, none, or some of: { $names }
lab-form-parallel = Parallel
lab-form-parallel-hint = requests at the same time, over all processes
lab-form-seeds = Seeds
lab-form-seeds-hint = runs per design, each with the next seed
lab-form-stock = pieces on sale
lab-form-think = Think
lab-form-think-hint = ms between a check and its write; widens races
lab-form-title = Work of the lab
lab-head-design = DESIGN
lab-head-lost = LOST
lab-head-orders = ORDERS
lab-head-oversold = OVERSOLD
lab-head-statements = SQL/REQ
lab-head-time = TIME us
lab-head-two-orders = TWO ORDERS
lab-head-verdict = PROMISES
lab-holder-died = its process was killed while it held the lock
lab-incident-consumer-dies = the consumer is killed while it has an entry, and started again
lab-incident-failover = failover of Redis
lab-incident-holder-dies = holder dies
lab-incident-holder-pauses = holder is stopped
lab-incident-holder-stalls = holder stalls
lab-incident-no-subscriber = the consumer starts after the first orders
lab-incident-poison = an entry that is not an order gets into the queue
lab-incident-restart = each instance is killed after its last reply, and started again
lab-incidents = Incidents: { $incidents }.
lab-instance = instance { $instance } of the lab failed: { $reason }
lab-instance-alone = this command is started by 'seckill lab' only
lab-instance-ended = the process ended early
lab-instance-late = no reply within { $seconds } s
lab-lane = request { $request }: user { $user }, instance { $instance }
lab-lane-consumer = consumer (process { $process })
lab-lane-consumer-task = consumer (instance { $process })
lab-lane-holder = request { $request }: user { $user }, lock-holder process { $process }
lab-list-hint = Run some with 'seckill lab NAME…', all with 'seckill lab --all'.
lab-lock-acquired = acquired, token { $token }
lab-lock-busy = A holds the lock
lab-lock-expired = { $lock } expired
lab-lock-first = locks { $depth ->
        [one] once
       *[other] { $depth } times
    }, works { $hold } ms; { $every ->
        [0] lease { $lease } ms, not renewed
       *[other] the watchdog renews { $lease } ms every { $every } ms
    }
lab-lock-gives-up = gives up: { $why }
lab-lock-lost = lost: the lease is not certain any more, but A does not stop
lab-lock-not-subscribed = the locks did not subscribe to their channel within { $seconds } s
lab-lock-not-waited = B did not acquire the lock.
lab-lock-of = this was the lock of request { $request }
lab-lock-redis = commands of the scripts (MONITOR), expired keys ({ $expired })
lab-lock-reentered = acquired again, depth { $depth }
lab-lock-release-failed = not released: { $error }
lab-lock-released = released
lab-lock-released-once = released once, depth { $depth }
lab-lock-renewals = { $count ->
        [0] The lease was not renewed.
        [one] The watchdog renewed the lease once.
       *[other] The watchdog renewed the lease { $count } times.
    }
lab-lock-renewed = watchdog renews
lab-lock-second = asks once A holds the lock, waits up to { $wait } ms
lab-lock-title = Two contenders for a reentrant lock
lab-lock-tries = { $wait ->
        [0] tries once
       *[other] tries, waits up to { $wait } ms
    }
lab-lock-waited = B waited { $waited } ms for it.
lab-lock-works = works for { $hold } ms
lab-mended-by = Fixed by `{ $design }`.
lab-name = lab
lab-no-design = there is no design '{ $name }'; the designs are: { $names }
lab-no-program = the path of this program is unknown, so the lab cannot start its instances: { $error }
lab-none-alone = 'none' means no incidents and cannot be combined with others. Pass --incidents none, or only the incidents.
lab-not-applicable = { $design } is not applicable on { $database }, which has no row locks.
lab-not-caught = not caught with this work
lab-one-format = give either --json or --markdown
lab-one-screen = the screen of the lab writes no report; omit --json and --markdown
lab-piece = piece { $piece }
lab-progress = { $database }, { $design }, seed { $seed }: run { $done } of { $runs } done
lab-promise-freed-after-death = lock is free again after its holder died
lab-promise-no-loss = no lost orders
lab-promise-no-overselling = no overselling
lab-promise-one-order = one order per user
lab-promise-own-lock = releases only its own lock
lab-promise-sells-out = sells the whole stock
lab-property-acknowledgement = taken entries stay until they are acknowledged (acknowledged)
lab-property-blocking-read = a reader can wait for an entry (what it got)
lab-property-crash-safety = no order is lost when the consumer dies (lost)
lab-property-persistence = entries survive a restart (left)
lab-property-replay = an entry can be read again (second read)
lab-property-shared-entries = consumers share the entries (what each got)
lab-property-unbounded-backlog = the backlog has no bound of its own (accepted)
lab-question-hand-over = Hand-over to SQL
lab-question-locks = Distributed locks
lab-question-one-order = One order per user
lab-question-overselling = Overselling
lab-queue-blocking = blocking queue
lab-queue-full = the queue is full
lab-queue-group = stream with group
lab-queue-list = list
lab-queue-pubsub = Pub/Sub
lab-queue-stream = stream
lab-queues-how = How each cell was measured
lab-queues-lost = { $lost } of { $orders } lost
lab-queues-no = no
lab-queues-no-reader = the reader of the queue did not begin to wait
lab-queues-restart = Redis is stopped and started again
lab-queues-second = second client: { $command }
lab-queues-title = Queues compared
lab-queues-yes = yes
lab-refused-before = { $count ->
    [one] 1 more refused attempt before this one
   *[other] { $count } more refused attempts before this one
}
lab-replica = the failover of the lab failed: { $reason }
lab-replica-late = the replica did not receive the data in time
lab-request-timeout = not served within { $seconds } s
lab-schedule-after = { $delay } ms after the end of a run
lab-schedule-cron = cron
lab-schedule-delay = fixed delay
lab-schedule-due = due { $due }
lab-schedule-due-skipped = due { $due }, { $skipped } skipped
lab-schedule-every = every { $period } ms
lab-schedule-job = { $about }: { $schedule }, a run takes { $takes } ms
lab-schedule-not-cron = this is a span, not a cron expression; write, for example, '{ $example }'
lab-schedule-rate = fixed rate
lab-schedule-runs = Runs
lab-schedule-seconds = { $seconds } s
lab-schedule-slow = longer than its period
lab-schedule-title = Schedules side by side
lab-schedule-took = took { $took } ms
lab-server-missing = the server is not installed, or lacks the files that create its system tables; install it, or leave it out of --on
lab-source = Text { $text }, section { $section }.
lab-step-incident = incident: { $what }
lab-step-killed = is killed ({ $signal })
lab-step-lease-end = lease of { $millis } ms ends (computed)
lab-step-lock = locks { $lock }
lab-step-no-order = an entry that is not an order
lab-step-stall = stalled for { $millis } ms
lab-step-unlock = unlocks { $lock }
lab-texts =
    The tutorial texts:
    - 000: Redis, flash sale of vouchers (IDs, overselling, locks, queues)
    - 001: scheduled jobs, and a lock so that one node runs each
    - 002: review of the flash-sale process with Lua admission
    - 003: stock deduction in Lua, a message queue and asynchronous processing
    - 004: optimizing the flash sale with asynchronous orders and queues
lab-timeline = Broken promise: { $promise } (seed { $seed })
lab-title = The designs of the tutorials on the same work
lab-took = took { $millis } ms
lab-tour-acknowledge = XACK removes an entry from the pending list: its order is committed.
lab-tour-add = XADD appends an entry. With * Redis chooses its ID: milliseconds and a sequence number.
lab-tour-add-more = IDs only grow, so the stream keeps the order of arrival.
lab-tour-add-third = A third order.
lab-tour-again = The group delivers everything again: at least once, so a consumer must be idempotent.
lab-tour-auto-claim = XAUTOCLAIM finds idle pending entries and claims them in one call; a consumer runs it now and then.
lab-tour-call = redis.call raises the error of a command: the script ends there, and the last SET does not run.
lab-tour-call-left = Nothing is rolled back: the SET before the error took effect.
lab-tour-claim = XCLAIM transfers a pending entry of a dead consumer to another one, after an idle time (here 0).
lab-tour-claimed = It belongs to c1 now, and its delivery count has grown: a count that keeps growing points to a poison entry.
lab-tour-consumer = CREATECONSUMER creates a consumer; its first read would create it, too.
lab-tour-delete = XDEL removes an entry from the stream, but not from the pending list.
lab-tour-deleted = XAUTOCLAIM removes such entries from the pending list, and lists them last.
lab-tour-destroy = XGROUP DESTROY removes the group with its pending list, but not the entries of the stream.
lab-tour-destroyed = A consumer of the group gets an error from now on.
lab-tour-done = { $count ->
        [one] One command
       *[other] { $count } commands
    } on a temporary Redis server, which is stopped; its data is removed.
lab-tour-eval = EVAL runs a script as a whole: no other command runs between the check and the DECR.
lab-tour-evalsha = EVALSHA runs it by its hash. The stock is 0 now, so it sells nothing.
lab-tour-group = A group remembers what was delivered. With 0 it starts at the first entry, with $ after the last one.
lab-tour-group-exists = A group is created once; a second call is an error that a program must expect.
lab-tour-group-read = XREADGROUP with > delivers entries not yet delivered to any consumer in the group.
lab-tour-group-shares = Another consumer gets the next entry: consumers share the work.
lab-tour-info-consumers = How many pending entries each consumer has, and how long it has been idle.
lab-tour-info-groups = For each group the last ID delivered, the pending entries, and the lag.
lab-tour-info-stream = XINFO describes the stream.
lab-tour-length = XLEN counts the entries. Reading does not remove them.
lab-tour-load = SCRIPT LOAD stores the script and returns its SHA-1 hash: it is sent once.
lab-tour-no-script = A server that does not know the hash (restart, failover) says so; the client sends EVAL then.
lab-tour-own-pending = With an ID instead of > a consumer reads its own pending entries: the first thing after a restart.
lab-tour-pcall = redis.pcall returns the error as a value: the script goes on, and may handle it.
lab-tour-pcall-left = The last SET ran.
lab-tour-pending = XPENDING counts entries that were delivered and not acknowledged.
lab-tour-pending-each = Each with its consumer, idle time in ms, and number of deliveries.
lab-tour-range = XRANGE reads by ID, from the smallest (-) to the largest (+).
lab-tour-read = XREAD returns what follows an ID; 0 is the beginning of the stream.
lab-tour-read-after = A reader continues with the last ID it got. It must remember that ID itself.
lab-tour-read-new = $ is the end of the stream at the moment of the call: entries that arrive between two calls are missed.
lab-tour-set-id = XGROUP SETID moves the group back: a replay.
lab-tour-step-needs-terminal = { $flag } waits for Enter on a terminal; omit it, or --json
lab-tour-stock = Scripts: a stock of one piece.
lab-tour-title = Streams and scripts
lab-tour-trim = XTRIM keeps the newest entries; it does not care whether they are acknowledged.
lab-tour-trimmed = One entry is left.
lab-unexpected = Unexpected: it broke a promise that it keeps ({ $promise }).
lab-view-breaks = { $seeds ->
        [one] broken: { $promise }
       *[other] broken with { $count } of { $seeds } seeds: { $promise }
    }
lab-view-breaks-in = { $text } ({ $incidents })
lab-view-broken = { $promise } { $count }/{ $seeds }
lab-view-broken-promises = { $count } promises broken
lab-view-calm = no incident
lab-view-cancelling = cancelling: the servers of the lab are being stopped
lab-view-counts = { $orders } orders, { $oversold } oversold, { $twice } users with two orders, { $unsold } unsold, { $lost } lost
lab-view-designs = { $count } designs
lab-view-done = { $count ->
        [one] one design judged
       *[other] { $count } designs judged
    }
lab-view-failed = { $count ->
        [one] one request
       *[other] { $count } requests
    }, first with: { $why }
lab-view-keeps = kept: { $promises }
lab-view-kept = all kept
lab-view-more = { $count ->
    [one] 1 more line; press { KEY("open") } to read it
   *[other] { $count } more lines; press { KEY("open") } to read them
}
lab-view-no-result = The first result appears here.
lab-view-not-caught = not caught with this work: { $promises }
lab-view-not-mended = { $design } needs no fix
lab-view-not-run = not run yet on this database with this work
lab-view-order = designs are always in the order of the tutorials
lab-view-part = { $done } of { $runs } runs
lab-view-promise-of = promise { $number } of { $count }; { KEY("lab-panel") } next
lab-view-run = { $done }/{ $runs }  { $design }, seed { $seed }
lab-view-running = the lab is running; press { KEY("back") } to cancel it
lab-view-runs = running
lab-view-servers = temporary servers, no real sale
lab-view-so-far = not broken in { $done } of { $runs } runs: { $promises }
lab-view-speed = { $per_second } requests/s, p50 { $p50 }, p99 { $p99 }; { $sql } SQL statements and { $redis } Redis commands a request
lab-view-started = { $count ->
        [one] one design runs on { $on }; press { KEY("back") } to cancel
       *[other] { $count } designs run on { $on }; press { KEY("back") } to cancel
    }
lab-view-starting = starting the servers of the lab
lab-view-throughput = REQUESTS/S
lab-view-unavailable = this console cannot start the lab; run 'seckill lab'
lab-view-work = { $on }: { $buyers } buyers, stock { $stock }, { $percent } % twice, { $concurrency } parallel on { $instances ->
        [one] one instance
       *[other] { $instances } instances
    }, think { $think } ms, { $seeds ->
        [one] one seed
       *[other] { $seeds } seeds
    }
lab-why-blocking-queue = The queue is in the memory of the process that accepted the orders. When the process dies, they are lost, although their users got the reply that they bought.
lab-why-compare-and-swap-loop = The update succeeds only if the stock is still the one that was read, and otherwise the request reads again. It is right, but each success makes all other requests in flight start over.
lab-why-count-then-insert = Both requests of a double click count the user's orders before either has inserted one. A SELECT locks nothing, and there is no row yet that a lock could hold.
lab-why-counter-in-memory = The counter is in the memory of one process and starts at the whole stock. Each further instance sells the stock once more.
lab-why-engine = One script checks the stock and the buyers, takes the pieces of a batch and adds its orders to the stream, with no other command in between; the consumer writes a batch in one transaction and acknowledges after the commit. The entries of a consumer that dies are taken over, and an entry that is not an order becomes a dead letter.
lab-why-fencing-token = Each holder raises the user's token in SQL before it counts, and its write passes only if the token is still its own. A holder that has lost the lock is rejected by the database, however it lost it.
lab-why-guard-after-update = The guard is evaluated after the UPDATE has been sent, so the statement has no guard. All requests that passed the first check take a piece.
lab-why-list-brpop = BRPOP removes the entry from the list before the order is written. If the consumer dies in between, no server and no process has the entry.
lab-why-lock-per-interned-key = Equal strings are one object in a process, so all requests of a user there wait for the same lock. With two instances, there are two such objects, and both requests of a double click hold their own.
lab-why-lock-per-string = Each request locks an object that it has just created, so no other request ever waits for it. Both requests of a double click count the user's orders before either has inserted one.
lab-why-multilock = The lock is held only while all independent servers grant it, so the loss of the key on one of them frees nothing. A process that is stopped renews no lease, and writes when it continues although the leases have ended.
lab-why-mysql-row-lock = The row is locked by the transaction that writes the order, so the lock cannot end before the write. If the holder dies, its connection ends and the server releases the row.
lab-why-process-mutex = All users wait for one lock, and it is in the memory of one process, so it separates only the requests of that process. With two instances, both requests of a double click hold their own lock at the same time.
lab-why-pubsub = PUBLISH delivers to the current subscribers only, and Redis keeps nothing. Orders that are published while the consumer is away, and those in the buffers of a consumer that dies, are lost.
lab-why-reentrant = The lock is a hash of owner and depth, so a method that holds it can call another one that takes it. The lease is fixed: a holder that takes longer writes the order while another request holds the lock.
lab-why-serial = Each user waits for all six steps, and the writes of all requests wait for each other in the database. Nothing is lost, because the reply with an order follows its commit.
lab-why-setnx-blind-release = The lease ends while its holder is still at work, so the next request takes the lock and both write an order. The first one then deletes the lock of the second, because DEL does not ask whose lock it is.
lab-why-setnx-lua-release = The script compares the owner and deletes the lock in one step, so no request deletes the lock of another. It does not help a holder that takes longer than the lease and writes without the lock.
lab-why-setnx-owner-check-then-delete = GET and DEL are two commands: if the lease ends in between, DEL removes the lock of the next holder. A holder that takes longer than the lease still writes without the lock.
lab-why-setnx-without-expiry = The key has no lifetime, so the lock of a dead holder is never released and its user never gets an order. After a failover to a replica without the key, the lock is free while its holder is at work.
lab-why-stock-guard = The database checks the stock and takes the piece in one statement, and executes such statements one after the other. The last piece is taken once, and the next UPDATE changes no row.
lab-why-stream-group-repaired = Every entry stays in the stream and pending until its order is committed, and a restarted consumer begins with its own pending entries. An order that was committed and not acknowledged is found in SQL and not written twice; an entry that is not an order is put aside.
lab-why-stream-group-tutorial = The group begins at `$`, so it skips earlier entries, and XACK names the wrong stream, so every entry stays pending. A restarted consumer never reads its pending entries again, and after an exception it reads nothing else, in an endless loop.
lab-why-stream-read-dollar = `$` means the end of the stream at the time of the call. Entries that arrive while the consumer works on another one are before that end, so no call returns them.
lab-why-unguarded = Between the SELECT and the UPDATE, other requests read the same stock and pass the same check. Each of them takes a piece, also those that no longer exist.
lab-why-unique-index = The unique index rejects the second order of a user, on any number of instances. The transaction then gives the piece back: each repeated request costs the database that much, which a lock in Redis saves.
lab-why-unlock-after-commit = The next holder of the lock sees the order, because it was committed before the lock was released. The lock is in the memory of one process, so two instances do not exclude each other.
lab-why-unlock-before-commit = The lock is released when the block ends, and the transaction commits after the method has returned. In between, another request of the user takes the lock and does not see the order.
lab-why-version-column = The UPDATE succeeds only if the version is still the one that was read. Of all requests that read the same version one wins, and the others get the reply that the sale is sold out while there is stock.
lab-why-version-equal-stock = The UPDATE succeeds only if the stock is still the one that was read. Of a hundred requests that read the same stock one wins, and the others get the reply that the sale is sold out while there is stock.
lab-why-watchdog = The watchdog renews the lease while the process runs, so a slow holder keeps the lock and a dead one loses it. It cannot renew while the process is stopped, nor restore a lock that a failover has lost.
lab-work = { $buyers } buyers, stock { $stock }, { $percent } % of the users send their request twice, { $concurrency } concurrent requests on { $instances } instances, mean think time { $think } ms, { $seeds ->
    [one] 1 seed
   *[other] { $seeds } seeds
}. Counts are medians over the seeds, times are those of all requests.
lab-work-connections = { $instances } instances need a connection each, but the concurrency is { $connections }; raise --concurrency or lower --instances
lab-work-range = { $name } must be between { $from } and { $to }, not { $value }
lab-work-repeat = repeat must be between 0 and 1, not { $value }
lab-work-too-long = this work may take { $seconds } s under a lock, and a run takes at most { $most } s; lower --buyers or --think

## ledger

ledger-all-sales = All sales: { $finding }
ledger-audit-is-running-press-again = the audit is running; press { KEY("repair") } again when it is done
ledger-audit-was-stopped-after-s = The audit was stopped after { $most } s: run 'seckill audit' in a shell.
ledger-audited-ago = { $sales ->
    [one] 1 sale audited { $age } ago
   *[other] { $sales } sales audited { $age } ago
}
ledger-auditing-the-sales = Auditing the sales.
ledger-balanced = passed
ledger-by-hand = manual
ledger-change = change
ledger-changed-in-sql-not-confirmed = changed in SQL; not confirmed by Redis
ledger-compare-its-orders = compare its orders ({ KEY("orders") }, /{ $query }) with its row in tb_seckill_voucher, then correct SQL
ledger-cure-adopt = copy the sale from Redis to SQL, re-add its orders to the stream
ledger-cure-enqueue = re-add lost orders to the stream
ledger-cure-give-back = return the stock of orders closed in SQL to Redis
ledger-cure-reconcile = reconcile with SQL, stream and dead letters
ledger-cure-remove = remove the archived sale from Redis
ledger-cure-update = set the fields of the sale in Redis to those of SQL
ledger-cure-sql-stock = derive the stock in SQL from the live orders
ledger-cure-replace = rename the keys of the sale in Redis, load the sale from SQL; the stream entries of both sales become its orders
ledger-differences = differences
ledger-differences-of-sale = { $count ->
    [one] 1 difference
   *[other] { $count } differences
}
ledger-finding-ahead = { $changes ->
    [one] SQL lacks the last change of the sale
   *[other] SQL lacks the last { $changes } changes of the sale
}
ledger-finding-behind = { $changes ->
    [one] Redis lacks the last change of the sale
   *[other] Redis lacks the last { $changes } changes of the sale
}
ledger-finding-fields = fields of the sale in Redis differ from SQL: { $fields }; a running node sets them back
ledger-finding-damaged = the sale's key '{ $key }' in Redis was lost, replaced or rolled back; the sale admits no buyers until it is reconciled
ledger-finding-doubled = { $buyers ->
    [one] 1 buyer has more live orders than the sale allows
   *[other] { $buyers } buyers have more live orders than the sale allows
}
ledger-finding-initial = the initial stock is { $redis } in Redis and { $sql } in SQL
ledger-finding-kept = { $orders ->
    [one] 1 closed order still takes stock in Redis, which is not returned automatically
   *[other] { $orders } closed orders still take stock in Redis, which is not returned automatically
}
ledger-finding-lost = { $orders ->
    [one] 1 admitted order is neither in SQL nor in the stream nor a dead letter
   *[other] { $orders } admitted orders are neither in SQL nor in the stream nor dead letters
}
ledger-finding-negative = { $side } stock is below 0: { $stock }; the sale is oversold
ledger-finding-of-sale = #{ $sale }: { $what }
ledger-finding-of-shard = #{ $sale }.{ $shard }: { $what }
ledger-finding-other-sale = Redis holds another sale with this ID, created at another time
ledger-finding-redis-stock = Redis: initial { $initial } is not stock { $stock } + buyers { $admitted }
ledger-finding-repeated = { $ids ->
    [one] 1 order ID belongs to two buyers
   *[other] { $ids } order IDs belong to two buyers each
}
ledger-finding-restoring = the sale is being reconciled and admits no buyers meanwhile
ledger-finding-sql-stock = SQL: stock { $stock } is not initial { $initial } - live orders { $live }
ledger-finding-still-held = the sale is archived but still in Redis
ledger-finding-stranded = { $orders ->
    [one] 1 admitted order is a dead letter and not in SQL; 'seckill dead list' shows why
   *[other] { $orders } admitted orders are dead letters and not in SQL; 'seckill dead list' shows why
}
ledger-finding-unreadable = what is stored of the sale cannot be read: { $why }; its figures are unknown
ledger-finding-unknown = { $orders ->
    [one] 1 order in SQL has no buyer in Redis; its stock may be sold again
   *[other] { $orders } orders in SQL have no buyer in Redis; their stock may be sold again
}
ledger-former-keys = key { $key } has the name that an earlier version gave to shard { $shard }, and the database has lost its sale: 'seckill audit --repair' renames the keys and restores the sale
ledger-in-a-larger-window = { $count ->
    [one] 1 more line; enlarge the window
   *[other] { $count } more lines; enlarge the window
}
ledger-in-flight = { $orders } in flight
ledger-in-redis = in Redis
ledger-in-sql = in SQL
ledger-incomplete = Audit incomplete: no differences in what was read; the rest is unknown.
ledger-left-of = { $orders ->
    [one] { $stock } left + 1 order = { $sum }, of { $initial }
   *[other] { $stock } left + { $orders } orders = { $sum }, of { $initial }
}
ledger-more-sales = { $named } and { $more } more
ledger-no-automatic-repair-for-these = no automatic repair for these differences; see the details
ledger-no-differences-so = no differences, so there is nothing to repair
ledger-no-sales-yet-nothing = No sales yet, nothing to audit.
ledger-none-every-order-verified = none: every order verified by its ID
ledger-not-delivered-pending-dead-closed = { $undelivered } not delivered, { $pending } pending, { $dead } dead, { $closed } closed
ledger-outdated = Unknown until both servers answer. { $found ->
        [0] The last audit, { $age } ago, passed.
        [one] The last audit, { $age } ago, found 1 difference.
       *[other] The last audit, { $age } ago, found { $found } differences.
    }
ledger-partition = Partition { $number }: { $fault }
ledger-press-for-dead-letters-then = press { KEY("letters") } for the dead letters, then { KEY("replay-letters") } to replay them or { KEY("compensate") } to return their stock
ledger-repair-of-sales = { $sales ->
    [one] {"  "}1 sale: { $cure }
   *[other] {"  "}{ $sales } sales: { $cure }
}
ledger-sale-incomplete = incomplete
ledger-sale-is-in-redis-but = the sale is in Redis but not in SQL
ledger-sale-is-not-in-redis = the sale is not in Redis; a running node loads it within a second
ledger-shards-passed = { $quiet } of { $shards } passed
ledger-this-sale-has-no-automatic = this sale has no automatic repair
ledger-unreadable-keys = key { $key } is that of a sale that the database does not have, and has a field that cannot be read; restore the rows of the sale in SQL from a backup, or correct the field
ledger-verdict =
    { $found ->
        [0] { $flying ->
            [0] Audit passed: all orders accounted for.
            [one] No differences; 1 order in flight to SQL.
           *[other] No differences; { $flying } orders in flight to SQL.
        }
        [one] 1 difference in{" "}
       *[other] { $found } differences in{" "}
    }{ $off ->
        [0] {""}
        [one] 1 sale
       *[other] { $off } sales
    }{ $found ->
        [0] {""}
       *[other] { $repairable ->
            [0] , none with an automatic repair.  Press { KEY("open") } for the steps.
            [one] .  Press { KEY("open") } for details, { KEY("repair") } to repair 1 sale.
           *[other] .  Press { KEY("open") } for details, { KEY("repair") } to repair { $repairable } sales.
        }
    }
ledger-view-audits-at-most-orders = The view audits at most { $most } orders: run 'seckill audit' in a shell.

## letters

letters-advice = { $verdict ->
    [awaited] the buyer is waiting and no order exists: press { KEY("replay-letters") } to replay
    [came_back] every replay failed: fix the reason and run 'seckill dead replay --force', or press { KEY("compensate") } to cancel the order and return its stock
    [written] the order is in SQL: press { KEY("discard") } to remove the letter
    [not_awaited] the buyer has no order, or a different one: press { KEY("discard") } to remove the letter
    [no_sale] the sale does not exist, so no buyer can be waiting: press { KEY("discard") } to remove the letter
    [sale_lost] the buyer is waiting, but the database has lost the sale: restore it with 'seckill audit --repair' first
    [not_loaded] the sale is not in Redis, so waiting buyers are unknown: load it with 'seckill audit --repair', or press { KEY("compensate") } to cancel the order
    [id_taken] the buyer is waiting, but the order ID belongs to another buyer: resolve this manually
    [holds_another] the buyer has another live order: press { KEY("compensate") } to cancel this one and return its stock
   *[malformed] malformed: press { KEY("discard") } to remove the letter
}
letters-counting-the-dead-letters = counting the dead letters
letters-deliveries = { $deliveries ->
    [one] { $at }, 1 delivery: { $reason }
   *[other] { $at }, { $deliveries } deliveries: { $reason }
}
letters-effect = { $effect ->
    [replayed] replayed
    [removed] removed
    [cancelled] cancelled, stock returned, removed
    [exhausted] kept ('dead replay --force')
   *[stays] kept
}
letters-fields = fields
letters-given-up = dead since
letters-given-up-by = { $deliveries ->
    [one] { $at }, 1 delivery, { $consumer }: { $reason }
   *[other] { $at }, { $deliveries } deliveries, { $consumer }: { $reason }
}
letters-letter = letter
letters-marked =
    { $count } marked{ $filtered ->
        [0] {""}
       *[other] , { $filtered } of them hidden by the filter
    }{ $elsewhere ->
        [0] {""}
       *[other] , { $elsewhere } on other pages
    }
letters-marked-no-longer-present = { $gone }  marked, no longer present
letters-more-fields = { $count ->
    [one] 1 more field
   *[other] { $count } more fields
}
letters-no-dead-letters-entries = No dead letters. Entries that cannot be processed appear here with a reason.
letters-none = none: { $fault }
letters-nothing-to-do = { $command ->
    [replay-letters] { $count ->
        [one] the dead letter cannot be replayed; press { KEY("open") } for the reason
       *[other] none of { $count } dead letters can be replayed; press { KEY("open") } for the reasons
    }
    [discard] { $count ->
        [one] 1 dead letter may have waiting buyers: press { KEY("replay-letters") } to replay, { KEY("compensate") } to cancel the orders
       *[other] { $count } dead letters may have waiting buyers: press { KEY("replay-letters") } to replay, { KEY("compensate") } to cancel the orders
    }
   *[compensate] { $count ->
        [one] no buyer is waiting for 1 dead letter; press { KEY("discard") } to remove it
       *[other] no buyer is waiting for { $count } dead letters; press { KEY("discard") } to remove them
    }
}
letters-one = 1 dead letter, { $letter }
letters-on-this-page = On this page:
letters-scope-all = { $shown ->
    [none] { $count ->
        [one] The only dead letter
       *[other] All { $count } dead letters
    }
   *[other] All { $count }, not only the { $shown } filtered ones
}
letters-the-dead-letters-are-counted = the dead letters are counted
letters-there-are-no-dead-letters = there are no dead letters
letters-these-letters-are-no-longer = these letters are no longer present
letters-user-sale = { $order }, user { $user }, sale { $sale }
letters-verdict = { $verdict ->
    [awaited] buyer waits
    [came_back] failed again
    [written] in SQL
    [not_awaited] no buyer
    [no_sale] no such sale
    [sale_lost] sale lost
    [not_loaded] not loaded
    [id_taken] ID taken
    [holds_another] other order
    [malformed] no order
   *[other] { $verdict }
}
letters-verdict-line = { $count }  { $verdict }: { $effect }
letters-was-entry = { $letter }, was entry { $entry }
letters-why = { $verdict ->
    [awaited] its buyer waits and there is no order: replay it
    [came_back] it reached the replay limit and failed each time: fix the cause given in its reason and replay it with --force, or discard it with compensation
    [holds_another] its buyer holds another live order: discard it with compensation, which cancels this one and returns its stock
    [id_taken] its buyer waits, but the order ID belongs to another buyer: resolve this manually
    [no_sale] there is no such sale, so no buyer waits for it: discard it
    [sale_lost] its buyer waits, but SQL has lost the sale, which Redis still has: restore it with 'seckill audit --repair' first
    [not_awaited] its buyer holds no order, or a different one: discard it
    [not_loaded] Redis does not hold the sale, so it is unknown whether a buyer waits: load it first ('seckill audit --repair'), or discard it with compensation
    [written] its order is in SQL: discard it
   *[other] it contains no valid order: discard it
}

## list

list-clauses = ,{" "}
list-items = ,{" "}
list-parts = ;{" "}

## lock

lock-busy = lock '{ $name }' is held by another owner; wait for it, or see 'seckill locks list'
lock-changed = lock '{ $name }' has another holder now and was not released; see 'seckill locks list'
lock-lost = lock '{ $name }' was lost; later writes under it are rejected by its fencing token
lock-member = lock '{ $name }' needs all of its servers, but { $address } did not grant it: { $why }
lock-name-control = a lock name must not contain control characters: '{ $name }'
lock-name-length = a lock name must have 1 to { $most } characters, not { $length }
lock-no-server = a lock needs at least one server
lock-not-held = lock '{ $name }' is not held; 'seckill locks list' shows the held locks
lock-server-twice = a multi-server lock lists the same server twice
lock-too-slow = the lease of { $lease } s ended before Redis replied after { $took } s; use a longer lease

## loss

loss-and-more = { $named } and { $more } more
loss-archived = { $count ->
    [one] 1 archived sale
   *[other] { $count } archived sales
} removed
loss-buyers = { $count ->
    [one] 1 buyer
   *[other] { $count } buyers
} restored
loss-keys = lost, replaced or rolled back: { $keys };{" "}
loss-letters = ; an unknown number of dead letters without an order were lost
loss-nothing = no buyers were missing
loss-other-sale = ; Redis and SQL hold different sales under this ID, so the sale stays closed
loss-oversold = ; more buyers than pieces, so the sale stays closed
loss-paused = ; an older SQL does not tell whether the sale may sell, so it was paused: look at it, then resume it
loss-promised = { $count ->
    [one] 1 order
   *[other] { $count } orders
} re-added to the stream
loss-refused = { $count ->
    [one] 1 admitted order
   *[other] { $count } admitted orders
} cannot be fulfilled
loss-removed = { $count ->
    [one] 1 buyer
   *[other] { $count } buyers
} with closed orders removed
loss-unknown = { $count ->
    [one] 1 buyer
   *[other] { $count } buyers
} possibly missing (counted only by the stock in Redis)
loss-unwitnessed = Redis restarted or failed over while no node lived: { $seconds ->
    [0] admissions may be missing; how many is unknown
   *[other] up to { $seconds } s of admissions may be missing
}; { $newest ->
    [none] Redis has no admission
   *[other] the newest admission that Redis has is of { $newest }
}
loss-was-a = { $key } (was a { $held })

## metrics

metrics-admission = Requests for a piece by outcome
metrics-alarms = Open alarms
metrics-connections = Open connections
metrics-database-up = Whether the database answers
metrics-dead = Dead letters
metrics-duration = Time from the headers of a request to those of its answer
metrics-in-flight = Requests in progress
metrics-lag = Entries that were never delivered
metrics-limited = Requests beyond a rate limit
metrics-nodes = Nodes with a recent heartbeat
metrics-orders = Live orders in the database
metrics-pending = Entries that were delivered and not acknowledged
metrics-redis-up = Whether Redis answers
metrics-requests = Requests that were answered
metrics-sale-admitted = Buyers who hold an order in Redis
metrics-sale-initial = Pieces of a sale, sold or not
metrics-sale-orders = Live orders of a sale in the database
metrics-sale-stock = Pieces left in Redis

## orders

orders-admitted = ADMITTED
orders-and-acknowledged-time-unknown-redis = and acknowledged; time unknown, Redis does not keep it
orders-and-more = { $count }+
orders-atomically-as-entry = atomically, as entry { $entry }
orders-bought-by = { $place ->
    [0] user { $user }, voucher { $sale }
    [1] user { $user }, sale { $sale }
   *[other] user { $user }, place { $place }, sale { $sale }
}
orders-buyer = buyer
orders-clocks-differ-by-at-least = clocks differ by at least { $size }
orders-closed = closed
orders-dead-letter-press-to-open = dead letter: { $reason }; press { KEY("letters") } to open
orders-delivered = delivered
orders-held = { $at }, { $held ->
    [true] assigned to its buyer in Redis
   *[false] no longer assigned to its buyer in Redis
}
orders-id-time = ID time
orders-any-id = order with this ID
orders-id-user-voucher-paid = id, user=1001, voucher=7, paid, from=14:30, to=-5m; negation: !user=7, !voucher=7, !paid; press { KEY("press") } to search
orders-in-all = { $count } total
orders-in-sql = in SQL
orders-in-stream = in stream
orders-in-the-stream-not-delivered = in the stream, not delivered yet
orders-issued-number-of-utc = issued { $issued }, number { $sequence } of { $day } (UTC)
orders-location = location
orders-lost-assigned-to-its-buyer = LOST: assigned to its buyer in Redis and stored nowhere else; repair it with 'seckill audit --repair'
orders-ms = { $size } ms
orders-never = never
orders-newest-first = newest first
orders-no-entry-near-that-second = { $is_partial ->
    [true] not found near that second; too many entries to check all
   *[false] no entry near that second; possibly trimmed
}
orders-no-order-in-sql-matches = No order in SQL matches the query. Press { KEY("back") } to show all.
orders-no-orders-in-sql-yet = No orders in SQL yet. New orders enter the stream first.
orders-not-delivered-yet = not delivered yet
orders-not-yet = not yet
orders-order-is-only-unpaid-orders = order { $id } is { $status }; only unpaid orders can be paid
orders-paid = paid
orders-partition = , partition { $number }
orders-pending-delivered-and-not = pending: delivered, not acknowledged; press { KEY("pending") } to open
orders-place = PLACE
orders-s = { $seconds }.{ $tenths } s
orders-searching = searching
orders-since = SINCE
orders-sql-did-not-reply-within = The database did not reply within two seconds. Filter by sale, user or time to narrow the search.
orders-sql-takes-long = database is slow
orders-status = STATUS
orders-status-name = { $status }
orders-the-last = the last { $count }
orders-time-unknown = time unknown
orders-to-try = { $last }, to { $consumer }, delivery { $times }
orders-unknown-not-in-sql-stream = unknown: not in SQL, the stream or the dead letters, and not assigned to a buyer
orders-unknown-server-is-unreachable-try = unknown: a server is unreachable; try again later
orders-up-to-press-for-newest = up to { $at }; press { KEY("first") } for the newest
orders-value = { $first }, { $second }

## os

os-error = { $kind ->
    [AddrInUse] address in use
    [AddrNotAvailable] address not available
    [AlreadyExists] file exists
    [BrokenPipe] broken pipe
    [ResourceBusy] device or resource busy
    [ConnectionAborted] connection aborted
    [ConnectionRefused] connection refused
    [ConnectionReset] connection reset by peer
    [DirectoryNotEmpty] directory not empty
    [StorageFull] no space left on the device
    [FileTooLarge] file too large
    [HostUnreachable] host unreachable
    [InvalidInput] invalid argument
    [InvalidFilename] file name too long or invalid
    [IsADirectory] is a directory
    [NetworkDown] network down
    [NetworkUnreachable] network unreachable
    [NotADirectory] not a directory
    [NotConnected] not connected
    [NotFound] no such file or directory
    [OutOfMemory] out of memory
    [PermissionDenied] permission denied
    [QuotaExceeded] disk quota exceeded
    [ReadOnlyFilesystem] read-only file system
    [TimedOut] timed out
   *[other] { $text }
}

## outcome

outcome-admitted = admitted with order { $order }
outcome-after-ms = { $outcome } after { $took } ms: { $result }
outcome-busy = the node is busy: the wait for admission would be too long; try again
outcome-done = done
outcome-duplicate = the buyer already holds order { $order }
outcome-ended = the sale has ended
outcome-failed = failed: { $error }
outcome-not-loaded = the sale is not in Redis
outcome-not-ready = the order stream or its consumer group is missing
outcome-not-started = the sale starts at { $begins }
outcome-paused = the sale is paused
outcome-ran = { $outcome } after { $took } ms
outcome-sold-out = the sale is sold out
outcome-started = started

## overview

overview-consumers = CONSUMERS
overview-latency = LATENCY, MS
overview-left = left
overview-locks = LOCKS
overview-none-from-here = none from this console
overview-orphans =
    { $figure } { $count ->
        [one] orphan{" "}
       *[other] orphans
    }
overview-recent-events = RECENT EVENTS
overview-refused = refused
overview-requests = { $count } requests
overview-rushes = { $count } running
overview-stock = stock
overview-waiting = { $count } waiting

## partitions

partitions-changed = another process has just changed the number of partitions; restart this one
partitions-entries = { $entries ->
    [one] 1 entry is
   *[other] { $entries } entries are
} in flight; run 'seckill work' with { $partitions ->
    [one] 1 partition
   *[other] { $partitions } partitions
} until the streams are drained
partitions-foreign-key = the key '{ $key }' in Redis holds a { $holds } that seckill did not write
partitions-future-id = the last ID of the order stream, { $id }, is in the future
partitions-group-beyond = the consumer group is at { $delivered }, beyond the last ID of its stream ({ $last }), and receives no entries
partitions-letters = { $letters ->
    [one] 1 dead letter
   *[other] { $letters } dead letters
} waiting for review
partitions-lost = stream '{ $key }' has lost entries
partitions-moved-back = { $fault }; moved back to { $from }
partitions-node = node { $node } is alive; stop all nodes first
partitions-not-now = the number of partitions is { $from } and cannot be changed to { $to } now: { $why }
partitions-other = the number of partitions is now { $stored }, but this node uses { $known }; restart it
partitions-renamed = { $fault }; renamed to '{ $aside }' and recreated
partitions-renewed = { $fault }; replaced by a new stream with { $kept ->
    [one] 1 entry
   *[other] { $kept } entries
} to write and { $dead ->
    [one] 1 dead letter
   *[other] { $dead } dead letters
}; the old stream is kept as '{ $aside }' for a day
partitions-stored = the number of partitions in tb_setting is '{ $text }', which is not valid; set it to 1 to { $most }
partitions-unknown = Redis cannot determine the number of waiting entries; drain the streams with 'seckill work', and restart Redis if that does not help

## pending

pending-why = { $verdict ->
    [body_gone] the entry was trimmed or deleted; the buyers hash still has its order
    [malformed] its fields do not form a valid order
    [not_promised] no buyer in Redis was admitted with its order ID
    [refused] the data in SQL does not allow its order
    [stuck] no order in SQL, and the holder is dead or has been idle for too long
    [too_often] delivered too often without an order, so it may crash the nodes that read it: it is tried alone once more, and becomes a dead letter if that fails
    [written] its order is in SQL; only the acknowledgement is missing
    [sale_lost] its buyer waits, but SQL has lost the sale, which Redis still has: restore it with 'seckill audit --repair'
   *[other] it was just delivered to a live node, which may be writing it
}

## plan

plan-edited = the plan was edited after it was made (digest mismatch) and is not applied; create a new one
plan-foreign = the plan belongs to another deployment; use the --redis and --database it was made with
plan-io = cannot store or read the plan ({ $error }); free space for temporary files, then create a new plan
plan-not-a-plan = this is not a plan; create one with 'seckill pending plan --out FILE'
plan-truncated = the plan is truncated: its end is missing; create a new one
plan-version = the plan has format { $version }, but only format 1 is supported; create a new plan

## presenter

presenter-buyers = buyers
presenter-buyers-s = buyers/s
presenter-left = { $share } left
presenter-no-sales-yet-press = No sales yet. Press { KEY("arm") } to schedule one.
presenter-opens = opens { $time }
presenter-oversold = oversold
presenter-pieces = pieces
presenter-pieces-left-of = pieces left of { $initial }
presenter-pieces-left-unknown = pieces left: unknown
presenter-recovered =
    audit passed: { $count ->
        [one] 1 stranded order
       *[other] { $count } stranded orders
    } accounted for
presenter-sold-of =
    { $seconds ->
        [none] sold of { $initial }
       *[other] sold of { $initial } in { $seconds } s
    }
presenter-stranded = stranded
presenter-there-is-no-other-sale = { $count ->
    [1] there is no other sale to show
   *[other] { $is_forward ->
        [true] this is the last sale
       *[false] this is the first sale
    }
}
presenter-until-the-sale-opens = until the sale opens
presenter-value = { $count ->
    [0] {""}
   *[other] {"  "}+{ $count }
}
presenter-works-in-views-press = { $key } works in the views; press { KEY("present") } to leave presenter mode
presenter-written = persisted

## recovery

recovery-action = { $action ->
    [process] claim and write
    [leave] keep
    [rebuild] rebuild from buyers
    [dead_letter] dead letter
   *[other] { $action }
}
recovery-age = age { $sign } { $border }
recovery-delivered-2-4-times = delivered 2–4 times
recovery-delivered-5-times = delivered 5+ times
recovery-delivered-once = delivered once
recovery-live-nodes-claim = Live nodes claim them automatically in { $left }.
recovery-of = { $action } { $done } of { $planned }
recovery-of-the-oldest = of the oldest { $count }
recovery-plan-left = { $left ->
    [0] Nothing is left to apply: all entries were claimed or processed meanwhile.
   *[other] Left to apply: { $left } of { $planned }; the rest was claimed or processed meanwhile.
}
recovery-value = { $text }: { $action }
recovery-verdict = { $verdict ->
    [written] in SQL already
    [stuck] stuck, not in SQL
    [in_hand] held by a live node
    [body_gone] body gone
    [malformed] invalid entry
    [too_often] too many deliveries
    [refused] conflict with data in SQL
    [not_promised] not assigned to a buyer
    [sale_lost] sale lost in SQL
   *[other] { $verdict }
}
recovery-verdict-word = { $verdict ->
    [written] in SQL
    [in_hand] held
    [body_gone] body gone
    [malformed] no order
    [too_often] too often
    [refused] conflict
    [not_promised] no buyer
    [sale_lost] sale lost
   *[other] { $verdict }
}

## redis

redis-certificate = the certificate of Redis at { $address } is not accepted ({ $reason }); if your own authority signed it, pass that authority's certificate with --redis-ca FILE
redis-client-certificate = Redis at { $address } does not accept this client without a certificate that it trusts ({ $reason }); pass one with --redis-cert FILE and --redis-key FILE
redis-cluster-down = { $address } replied { $reply } for slot { $slot }
redis-cluster-is-down = { $reason }; start the missing server, or run 'CLUSTER FAILOVER TAKEOVER' on its replica; if the slot was never assigned, assign it with 'CLUSTER ADDSLOTS'
redis-cross-slot = the keys of one pipeline are in different slots; please report this
redis-data-dir-closing = another seckill has been closing { $path } for { $seconds } s; wait for it, or stop it
redis-data-dir-crowded = { $nodes } processes already use { $path }; stop some of them
redis-data-dir-denied = this user cannot write to { $path }; change its owner, or pass another --data-dir
redis-data-dir-full = the disk of { $path } is full; free disk space, or pass another --data-dir
redis-data-dir-gone = { $path } was removed while in use: the data in it is lost, and requests are no longer accepted; stop all seckill processes, restore a backup, and start again
redis-data-dir-no-home = there is no home directory for the data; pass --data-dir
redis-data-dir-not-a-directory = { $path } is not a directory; pass another --data-dir
redis-data-dir-read-only = { $path } is on a read-only file system; pass another --data-dir
redis-data-dir-shared = { $path } belongs to another user or is open to others; remove it, or set TMPDIR
redis-data-dir-unusable = { $path } cannot be used ({ $reason }); pass another --data-dir
redis-hosts-databases = a cluster has no databases to choose from
redis-hosts-host = a host, port or database is invalid
redis-hosts-missing = a host is missing
redis-hosts-none = it names no host
redis-hosts-only = Unix sockets are not allowed here; write hosts
redis-hosts-parameters = only sentinel_user and sentinel_pass are allowed after the ?
redis-hosts-password = in a password, write / ? # @ as %2F %3F %23 %40
redis-hosts-service = the name of the service must follow the hosts
redis-hung-up = { $reason }; { $tls ->
    [tls] a server without TLS needs a redis:// URL
   *[plain] the server has too many clients, or uses TLS and needs a rediss:// URL
}
redis-key-moved = a key is moving or has moved away from { $address } ({ $reply }); try again
redis-login = Redis at { $address } rejects the login ({ $reason }); { $code ->
    [NOAUTH] put the user and password into the URL: redis://USER:PASSWORD@HOST or unix:///PATH?user=USER&pass=PASSWORD
   *[other] check the user and password in the URL; omit them if the server requires none
}
redis-lost-server = { $count ->
    [one] the state of partition { $numbers } is unknown
   *[other] the states of partitions { $numbers } are unknown
}: { $error }
redis-no-group = the consumer group is missing; a running node recreates it
redis-no-handshake = no reply to the TLS handshake within { $seconds } s: the server hangs, or does not use TLS and needs a redis:// URL
redis-no-info = { $reason }; each connection begins with INFO: grant it to the user of the URL (+info), or remove its 'rename-command' from the configuration of Redis
redis-no-master = its sentinels report no live primary for '{ $service }'
redis-no-parameters-are-allowed-after = no parameters are allowed after a ?
redis-none-is-on-path = none is on PATH
redis-none-of-its-servers-answers = none of its servers responds; { $address }: { $reason }
redis-not-master = it is no longer the primary
redis-not-reported = it does not report { $name }
redis-one-of-cluster = { $address } is one server of a cluster ({ $reply }); use a redis+cluster:// or rediss+cluster:// URL
redis-redis-at-does-not-answer = Redis at { $address } does not respond ({ $reason }); start it or check the URL
redis-redis-or-valkey-or-later = Redis or Valkey 7.0 or later is required ({ $found }); install it: { $install }, or pass --redis URL
redis-refused = Redis rejected the command: { $reason }{ $code ->
    [NOPERM] ; 'seckill doctor' names the permissions that are missing
    [ERR] ; 'seckill doctor' names commands that are missing
   *[other] {""}
}
redis-remedy = { $code ->
    [BUSY] a script blocks it: end it with 'SCRIPT KILL', or 'FUNCTION KILL'
    [MISCONF] free disk space and check its log
    [OOM] raise maxmemory or remove other data
    [READONLY] it is a replica: pass the URL of its primary
    [NOREPLICAS] reconnect its replicas or lower min-replicas-to-write
   *[other] resolve the cause
}
redis-reply = Redis sent an unexpected reply; check whether another program wrote the key, and whether the server is Redis
redis-reply-to = Redis sent an unexpected reply to { $command }; check whether another program wrote the key, and whether the server is Redis
redis-sentinel-login = { $reason }; if the sentinels require their own login, add ?sentinel_user=USER&sentinel_pass=PASSWORD
redis-sentinels-timed-out = its sentinels did not respond in time
redis-server-damaged = the append-only file of the Redis server is damaged; back up { $dir }, then run: redis-check-aof --fix { $manifest }
redis-server-detached = this process has detached from the Redis server; restart seckill
redis-server-died = the Redis server exited at once: { $messages }; see { $log }
redis-server-died-silent = the Redis server exited at once without a message; see { $log }
redis-server-ending = the program is shutting down and no longer manages the Redis server
redis-server-foreign = the server at { $socket } works in another directory, { $dir }; stop it, or pass another --data-dir
redis-server-found-other = { $path } is not a server
redis-server-found-version = { $path } is { $version }
redis-server-full = the Redis server cannot start because the disk of { $dir } is full; free disk space
redis-server-loading = the Redis server is still loading its append-only file after { $seconds } s; try again later
redis-server-silent = a Redis server holds { $lock } but does not respond at { $socket }; check { $log }, and stop it
redis-server-spawn = { $path } cannot be started ({ $reason }); reinstall it, or pass --redis URL
redis-server-stuck = the Redis server at { $socket } does not exit; stop it with redis-cli -s { $socket } shutdown
redis-server-unwritten = the Redis server was left running because it could not write its latest changes to { $dir }; free disk space, then start and stop seckill once more
redis-silent = Redis at { $address } has not replied within { $seconds } s; check whether another program listens there or Redis hangs
redis-temp-dir = no temporary directory can be made in { $path } ({ $reason }); set TMPDIR to a directory that this user can write to
redis-timed-out = no reply in time
redis-too-old = Redis at { $address } is version { $version }, but 7.0 or later is required; upgrade it
redis-unknown-directory = an unknown directory
redis-unserved = no server of the cluster { $cluster } serves slot { $slot }
redis-unwilling = Redis rejects writes ({ $reason }): { $remedy }; a running node then continues
redis-url-ca-empty = --redis-ca { $path } contains no PEM certificate; pass a PEM file with the certificate of the authority that signed the server certificate
redis-url-cert-alone = --redis-cert and --redis-key belong together; pass both, or none
redis-url-cert-empty = --redis-cert { $path } contains no PEM certificate; pass a PEM file with the certificate of this client, followed by those of the authorities between it and the root
redis-url-cert-key = the certificate { $path } and the key { $key } cannot be used together ({ $why }); pass the key of this certificate with --redis-key
redis-url-cluster = the cluster URL cannot be parsed: { $fault }; write { $form }
redis-url-key-empty = --redis-key { $path } contains no PEM key; pass a PEM file with the private key of the certificate, without a password
redis-url-database = the database number in the Redis URL does not exist on this server ({ $reason }); use another one, or omit it
redis-url-no-cluster = Redis at { $address } is a single server, not a cluster; use a redis:// or rediss:// URL
redis-url-not-a-sentinel = Redis at { $address } is not a sentinel; pass the addresses of the sentinels, or use a redis:// or rediss:// URL
redis-url-other-scheme = a Redis URL starts with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://, not with '{ $scheme }'; for example redis://127.0.0.1:6379
redis-url-scheme = a Redis URL starts with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://; for example redis://127.0.0.1:6379
redis-url-sentinels = the Sentinel URL cannot be parsed: { $fault }; write { $form }
redis-url-tls-file = the file { $path } of --redis-ca, --redis-cert or --redis-key cannot be read ({ $reason }); pass a PEM file
redis-url-tls-unused = --redis-ca, --redis-cert and --redis-key require a TLS connection; use a rediss://, rediss+sentinel:// or rediss+cluster:// URL, or omit them
redis-url-unreadable = the Redis URL cannot be parsed; write { $server } or { $socket }
redis-url-unusable = the Redis URL cannot be used ({ $reason })
redis-wrong-login = the user or the password is wrong

## reply

reply-cancelling = { $running ->
    [true] stops after the current batch
   *[false] there is no running command to cancel
}
reply-claimed = { $claimed ->
    [one] 1 entry
   *[other] { $claimed } entries
} transferred to another consumer{ $gone ->
    [0] {""}
   *[other] , { $gone } no longer present
}{ $without_body ->
    [0] {""}
   *[other] , { $without_body } without a body
}{ $interrupted ->
    [true] ; interrupted
   *[other] {""}
}
reply-consumer-removed = consumer '{ $consumer }' removed from partition { $partitions }
reply-dead-letters-discarded = { $count ->
    [one] 1 dead letter
   *[other] { $count } dead letters
} discarded{ $compensated ->
    [0] {""}
   *[other] , { $orders ->
        [one] 1 order
       *[other] { $orders } orders
    } cancelled, { $pieces ->
        [one] 1 piece
       *[other] { $pieces } pieces
    } returned to stock
}{ $kept ->
    [0] {""}
   *[other] , { $kept } kept
}{ $gone ->
    [0] {""}
   *[other] , { $gone } no longer present
}{ $interrupted ->
    [true] ; interrupted
   *[other] {""}
}
reply-dead-letters-replayed = { $count ->
    [one] 1 dead letter
   *[other] { $count } dead letters
} replayed{ $kept ->
    [0] {""}
   *[other] , { $kept } kept
}{ $gone ->
    [0] {""}
   *[other] , { $gone } no longer present
}{ $interrupted ->
    [true] ; interrupted
   *[other] {""}
}
reply-job-ran = { $job } { $outcome } after { $took } ms
reply-job-result = : { $result }
reply-job-switched = { $paused ->
    [true] job { $job } { $changed ->
        [true] is paused
       *[false] was paused already
    }
   *[false] job { $job } { $changed ->
        [true] is resumed
       *[false] was not paused
    }{ $skipped ->
        [true] ; runs due during the pause are skipped: 'seckill jobs run { $job }' runs it once
       *[false] {""}
    }
}
reply-lock-released = lock '{ $name }' released
reply-paid = { $payment ->
    [paid] order { $order } is paid
    [paid_before] order { $order } was already paid
    [returned] order { $order } is not paid here: its sale goes back to the service that it came from. Pay it there once that has finished
    [too_late] order { $order } is closed and cannot be paid
   *[not_found] order { $order } is not in SQL
}
reply-repaired = { $buyers ->
    [one] 1 buyer
   *[other] { $buyers } buyers
} restored, { $orders ->
    [one] 1 order
   *[other] { $orders } orders
} re-added to the stream, { $pieces ->
    [one] 1 piece
   *[other] { $pieces } pieces
} returned to stock{ $stocks ->
    [0] {""}
    [one] , 1 SQL stock derived from the live orders
   *[other] , { $stocks } SQL stocks derived from the live orders
}
reply-replayed = { $overtaken ->
    [true] nothing left to apply to the { $seen ->
        [one] 1 entry
       *[other] { $seen } entries
    } of the plan
   *[other] { $seen ->
        [one] 1 entry
       *[other] { $seen } entries
    }: { $persisted } written, { $acknowledged } acknowledged, { $dead ->
        [one] 1 dead letter
       *[other] { $dead } dead letters
    }, { $left } kept pending
}{ $rebuilt ->
    [0] {""}
   *[other] , { $rebuilt } rebuilt
}{ $without_body ->
    [0] {""}
   *[other] , { $without_body } without a body cleaned up
}{ $lost ->
    [0] {""}
   *[other] , { $lost } without a body kept pending
}{ $gone ->
    [0] {""}
   *[other] , { $gone } no longer present
}{ $changed ->
    [0] {""}
   *[other] , { $changed } changed since they were shown and skipped
}{ $interrupted ->
    [true] ; interrupted
   *[other] {""}
}
reply-restocked = sale #{ $voucher } has { $initial ->
    [one] 1 piece
   *[other] { $initial } pieces
} in total
reply-rewound = consumer group rewound: { $again ->
    [one] 1 entry
   *[other] { $again } entries
} to redeliver{ $created ->
    [0] {""}
    [one] , 1 group created
   *[other] , { $created } groups created
}
reply-rush-done = load test: { $attempts ->
    [one] 1 request
   *[other] { $attempts } requests
}, { $admitted } admitted, { $sold_out } sold out, { $duplicate } duplicate, { $rate }/s, p99 { $p99 } ms; { $settled ->
    [true] settled in { $seconds } s: { $persisted } written
   *[other] not settled yet: { $persisted } written so far
}{ $rejected ->
    [0] {""}
   *[other] , { $rejected } rejected
}{ $errors ->
    [0] {""}
   *[other] , { $errors } without a reply
}{ $dead ->
    [0] {""}
    [one] , 1 dead letter
   *[other] , { $dead } dead letters
}{ $interrupted ->
    [true] ; interrupted
   *[other] {""}
}
reply-rush-stopped = { $tests ->
    [0] no load test is running on sale #{ $voucher }
   *[other] load test on sale #{ $voucher } stopped: no more requests are sent
}
reply-sale-changed = { $state ->
    [running] sale #{ $voucher } is running
    [paused] sale #{ $voucher } is paused
    [ended] sale #{ $voucher } has ended permanently
   *[archived] sale #{ $voucher } is archived
}
reply-sale-created = sale #{ $voucher } created and loaded into Redis
reply-voucher-bought = order { $order } written
reply-voucher-created = voucher #{ $voucher } created

## request

request-admitted = admitted
request-average = avg
request-count = requests
request-duplicate = duplicate
request-error = failed
request-error-percent = err %
request-max = max
request-min = min
request-outcome = outcome
request-per-second = per s
request-rejected = rejected
request-sold-out = sold out
request-total = total

## sale

sale-conversion = conversion
sale-converted = { $admitted } admitted, { $persisted } of these persisted
sale-last = last { $span }
sale-last-load-test = LAST LOAD TEST, MILLISECONDS
sale-left-in-many = { $shards }, #{ $first }–#{ $last }: { $least }–{ $most } left each, { $dry } empty{ $unknown ->
    [0] {""}
   *[other] , { $unknown } unknown
}
sale-left-in-shards = { $shards }, left: { $left }
sale-lost-in-sql = SQL lost
sale-no-data-from-redis = No data from Redis for this sale yet.
sale-orders-counted-ago = orders counted { $age } ago
sale-outcomes-unknown = requests and outcomes: unknown
sale-press-for-its-orders = press { KEY("open") } for its orders
sale-repeat-buyers = repeat buyers
sale-set-back = in SQL
sale-set-back-behind = older than in Redis, as after a restore from a backup; press { KEY("ledger") } to repair
sale-set-back-lost = lost; no buyer is admitted; press { KEY("ledger") } to repair
sale-shards = shards
sale-stock-over-time = STOCK OVER TIME

## schedule

schedule-empty-item = a list has an empty item
schedule-fields = a cron expression has 5, 6 or 7 fields, not { $fields }
schedule-negative = a duration cannot be negative
schedule-never = the schedule '{ $text }' never fires; correct it
schedule-one-day = '?' is valid in only one of the two day fields
schedule-question-mark = '?' is valid only as the entire field for the day of the month or the day of the week
schedule-range = an interval of { $interval } is not allowed; use 100 ms to 366 days
schedule-span = a duration looks like 30m, 1h or 90s
schedule-unreadable = cannot read the schedule '{ $text }' ({ $why }); write 'every 30m', 'after 30m' or a cron expression such as '0 30 2 * * ?'
schedule-zone-unknown = there is no time zone '{ $name }'; use a name such as Asia/Shanghai or UTC

## servers

servers-connections = { $open } of { $most } open, { $requests ->
    [one] { $requests } request
   *[other] { $requests } requests
} in progress
servers-latency = p50 { $p50 }, p99 { $p99 }, max { $max }
servers-limited = { $user } by user, { $address } by address
servers-none = No node serves HTTP. Start one with 'seckill serve', or restart this console with --listen ADDR.

## settings

settings-action-value = '{ $action }': { $why }
settings-also-applies-while-text = '{ $action }' also applies while text is typed and needs a key such as 'ctrl-q'; '{ $written }' is text
settings-and-would-share-key = '{ $action }' and '{ $other }' would share the key '{ $key }' in the same context
settings-base-must-be-one = base must be one of { $names }; remove the line to use 'dark'
settings-cannot-be-capital-letters-open = '{ $action }' cannot be '{ $written }': capital letters open confirmations, and pressing one twice would confirm
settings-cannot-read-config-file-check = cannot read the config file { $path } ({ $why }); check --config
settings-cannot-read-theme-check-theme = cannot read the theme { $path } ({ $why }); check --theme
settings-changes-data-and-needs-capital = '{ $action }' changes data and needs a capital letter; '{ $written }' is not one
settings-correct-or-remove-line = { $why }; correct or remove the line ({ $instead })
settings-ctrl-can-only-be-combined = '{ $written }': ctrl can only be combined with a letter other than i and m, which a terminal sends as Tab and Enter
settings-default = default: { $key } = { $value }
settings-default-address-of-buyers = default: the address for buyers
settings-default-embedded-redis = default: the embedded Redis
settings-default-existing-number-of-partitions = default: the existing number of partitions, or 1
settings-default-generated-name = default: a generated name
settings-default-no-certificate = default: no certificate of this client
settings-default-sqlite-in-data-directory = default: SQLite in the data directory
settings-default-system-certificates = default: the system certificates
settings-default-working-directory = default: the working directory
settings-default-xdg-data-directory = default: the XDG data directory
settings-defaults-apply = defaults apply
settings-has-no-key-left = '{ $action }' has no key left
settings-invalid-config-file = invalid config file { $path }: { $why }
settings-invalid-theme = invalid theme { $path }: { $why }
settings-invalid-toml = invalid TOML: { $why }; correct or remove the line
settings-is-not-colour-use-rrggbb = { $role } is not a colour; use "#rrggbb", a number from 0 to 255, or a name such as "bright-red" or "default"; remove the line to use the { $role } of '{ $base }'
settings-is-not-key-use-character = '{ $shown }' is not a key; use a character, 'ctrl-n', 'alt-x', 'f5', or one of { $names }
settings-more-errors = { $text } ({ $more ->
        [one] 1 more error
       *[other] { $more } more errors
    })
settings-node-must-be-to-letters = node must be 1 to 64 letters, digits, '-', '_' or '.'
settings-not-utf8 = the text is not UTF-8; save the file as UTF-8, or remove the line
settings-position = line { $line }, column { $column }: { $why }
settings-remove-line = { $why }; correct or remove the line
settings-unknown-action-in-keys-seckill = unknown action '{ $written }' in [keys]; 'seckill keys' lists the names
settings-unknown-role-remove-line = unknown role '{ $name }'; remove the line, or use one of base, { $known }
settings-unknown-setting = unknown setting '{ $key }'; remove the line, or use one of { $known }
settings-unknown-theme-use-or-toml = unknown theme '{ $name }'; use { $names }, or a TOML file such as ./{ $name }.toml
settings-wanted-address = an address with a port, such as "127.0.0.1:9100"
settings-wanted-boolean = true or false
settings-wanted-integer = an integer from { $least } to { $most }
settings-wanted-keys = a key such as "ctrl-n", or a list of keys
settings-wanted-networks = a list of networks or addresses, such as ["10.0.0.0/8"]
settings-wanted-one-of = one of { $names }
settings-wanted-table = a table
settings-wanted-text = a string in quotes
settings-without-setting = { $why }; or remove '{ $key }' ({ $instead })
settings-wrong-value = { $key } must be { $wanted }

## store

store-ca-not-utf8 = the path of the CA certificates of the database is not valid UTF-8: { $path }; rename the file
store-cannot-be-opened-as-database = { $path } cannot be opened as a database; check its directory, or pass another --database
store-changed = the sale of voucher { $voucher } was just changed by another user; check it and try again
store-create-it-with-create-database = { $message }; create it with CREATE DATABASE, or correct --database
store-database-is-unavailable-work-continues = the database is unavailable ({ $reason }); work continues when it is back
store-directory-does-not-exist-create = the directory { $path } does not exist; create it, or pass another --database
store-ended = the sale of voucher { $voucher } has ended; create a new one
store-fenced = the lock '{ $name }' now has another holder; this write came too late and was rejected
store-failed = the database failed the request: { $reason }; its log and 'seckill doctor' may name the cause
store-file-closed = { $path } cannot be accessed ({ $reason }); pass another --database
store-file-damaged = the database file is damaged ({ $reason }); restore a backup
store-file-denied = this user cannot write to { $path }; change its permissions, or pass another --database
store-file-foreign = { $path } contains tables of another program ({ $tables }); pass another --database
store-file-not-a-file = { $path } is not a file; pass the path of a file as --database
store-file-read-only = { $path } is read-only; make it and its directory writable, or pass another --database
store-file-read-only-system = { $path } is on a read-only file system; change that, or pass another --database
store-file-removed = { $path } was removed while in use: what is written now is lost when this process ends; stop all seckill processes, restore a backup, and start again
store-file-replaced = { $path } was replaced while in use: what is written now does not reach the new file; stop all seckill processes and start again
store-file-unreadable = { $path } cannot be read ({ $reason }); pass another --database
store-file-unusable = { $path } cannot be used ({ $reason }); pass another --database
store-foreign = the keys in Redis belong to another database than { $database }, which was left unchanged; use the --database that belongs to them, or an empty Redis
store-is-not-directory-give-another = { $path } is not a directory; pass another --database
store-is-not-sqlite-database = { $path } is not an SQLite database, or is damaged; pass another --database
store-is-not-utf-which-sqlite = the path { $path } is not UTF-8, which SQLite requires; pass another --database
store-it-cannot-write-free-space = it cannot write: { $message }; free space on its disk
store-locked = the database is locked by another program ('fuser FILE' finds it); a running node continues when the lock is released
store-log-position = '{ $text }' is not a position in the log; pass the one at the end of the previous page, such as 1795000000000-17
store-no-answer-within-s = no reply within { $seconds } s
store-no-sale = there is no sale of voucher { $voucher }; 'seckill sale list' shows all sales
store-not-encrypted = no encrypted connection: { $message }; check store.tls, and store.ca for the certificate of an issuer
store-order-was-not-written = order { $order } was not written, and no row explains why
store-pieces-cannot-be-added = { $by } pieces cannot be added to the { $initial } of voucher { $voucher }; enter 1 to { $room }
store-reason-closed = the store is closed
store-reason-connection-broke = the connection was lost
store-reason-connection-failed = no connection: { $reason }
store-reason-contention = concurrent transactions keep changing the same rows
store-reason-damaged = the database has the invalid value { $value } in the column { $column }
store-reason-denied = it rejects the user, the password or the request: { $message }; check --database and GRANT
store-reason-disk-full = the disk is full; free disk space
store-reason-disk-full-log = the disk is full; free at least { $needed } MiB: the write-ahead log of the database is then checkpointed, which releases { $log } MiB
store-reason-drill = fault injection
store-reason-file-failed = the database file cannot be read or written: { $message }
store-reason-file-is-read-only = the database file is read-only; make it and its directory writable
store-reason-id-taken = the ID { $order } belongs to another order; nothing was bought
store-reason-other-protocol = it does not respond like { $database }: { $message }
store-reason-packet-too-large = { $message }; raise max_allowed_packet of the server
store-reason-pool-busy = all { $connections } connections of this process are busy
store-reason-replica = it is a read-only replica, or is set to read-only; pass the URL of the primary, or change its settings
store-reason-rows-locked = other transactions hold locks on the same rows
store-reason-schema-locked = another process is changing the schema
store-reason-silent = it accepts connections but does not respond
store-reason-statement-binlog = its binlog_format is STATEMENT; set it to ROW or MIXED, which READ COMMITTED requires
store-reason-statement-timed-out = a statement took longer than store.statement_ms
store-reason-too-large = { $number } is too large for the database
store-reason-too-many-connections = it accepts no more connections: { $message }; raise its limit or lower store.pool
store-reason-unreadable-sale = sale #{ $voucher } cannot be read: { $why }
store-reason-unreachable = { $server } does not respond
store-refused = the database rejected the request: { $reason }
store-rule-expired = voucher { $voucher } has expired and cannot be bought; choose another one
store-rule-flash-sale = voucher { $voucher } is sold only in its flash sale, not as an ordinary voucher
store-rule-former = voucher ID { $voucher } was that of a shard of sale #{ $sale } in an earlier version, whose entries may still name it; use another voucher ID
store-rule-full = voucher { $voucher } already has { $initial } pieces, the maximum of a sale; create another sale
store-rule-off = voucher { $voucher } has status off and cannot be bought; choose another one
store-rule-sold = { $by } pieces cannot be removed from voucher { $voucher }: { $stock } of { $initial } are unsold, and at least one must remain; end the sale to stop selling
store-rule-window = the sale of voucher { $voucher } ends at { $end }, so it cannot begin at { $begin }; choose an earlier time
store-sale-of-voucher = the sale of voucher { $voucher } has not ended; end it before archiving it
store-schema-changed = the schema was changed by another program: { $reason }; restore it, and work continues
store-schema-encoding = the encoding of the database is { $encoding }; create a database with ENCODING 'UTF8'
store-schema-failed = the upgrade of the database to schema version { $version } failed: { $reason }; correct what the database names, or restore a backup
store-schema-gap = the database records schema version { $reached }, but not version { $version }, which comes before it; restore this row of _sqlx_migrations, or a backup of the database
store-schema-half-done = the migration to schema version { $version } was interrupted; restore a backup, or pass another --database
store-schema-missing = { $database } has no tables of seckill, and --read-only creates none; check --database, or run the command once without --read-only
store-schema-newer = the database has schema version { $version }, created by a newer seckill; this one supports up to { $known }: upgrade seckill, or pass another --database
store-schema-no-schema = no schema in this user's search_path exists; create one, or set another search_path
store-schema-old-server = the server is { $version }, but { $oldest } or later is required; upgrade it
store-schema-older = the database has schema version { $version }, but this seckill requires { $known }, and --read-only upgrades nothing; run the command once without --read-only
store-schema-other = schema version { $version } of the database differs from that of this seckill; use the seckill that created it, or pass another --database
store-schema-other-server = the server is '{ $version }', which lacks statements that seckill needs; use MySQL, MariaDB or PostgreSQL
store-schema-pooler = the connection pooler at { $server } gives each transaction another session, but seckill requires sessions of its own; set pool_mode = session for this database in PgBouncer, or pass the address of PostgreSQL itself
store-schema-pooler-reset = the connection pooler at { $server } gives a client the settings and prepared statements that another has left; set server_reset_query = DISCARD ALL in PgBouncer, or pass the address of PostgreSQL itself
store-schema-stuck = the schema of the database cannot be upgraded ({ $reason }); pass another --database
store-silent = { $name } has not replied within { $seconds } s; check whether it hangs or another program locks it
store-there-is-no-voucher-seckill = there is no voucher { $voucher }; 'seckill voucher list' shows all vouchers
store-this-process-paused-within-transaction = this process paused within a transaction
store-unbound = whether { $database } belongs to this Redis is unknown while Redis does not reply; the database was left unchanged. Start Redis, or check its URL
store-unknown = the database failed during the commit ({ $reason }), so the result is unknown; check before you repeat it
store-url-file = the file of { $name } cannot be read ({ $reason }); correct the path
store-url-forms = sqlite:PATH, mysql://USER:PASSWORD@HOST/DATABASE or postgres://USER:PASSWORD@HOST/DATABASE
store-url-memory = sqlite::memory: cannot be used, because several connections share the database; write { $forms }
store-url-names-no-database = the URL names no database
store-url-no-database = the database URL names no database; write { $form }
store-url-no-file = the database URL names no file; write { $forms }
store-url-no-host = the database URL names no host; write { $forms }
store-url-no-scheme = the database URL has no scheme; write { $forms }
store-url-parameter = the database URL has the unknown parameter '{ $name }'; a { $database } URL takes { $known }
store-url-parameters = an SQLite URL takes no parameters (write %3F for a '?' in a file name); write { $forms }
store-url-scheme = the scheme of the database URL is unknown; write { $forms }
store-url-unreadable = the database URL cannot be parsed ({ $reason }); write { $forms }
store-url-unusable = the database URL cannot be used ({ $reason }); correct it

## stream

stream-acknowledged = acknowledged
stream-acknowledged-or-dead = acknowledged or dead
stream-added = added
stream-after-them-delivered-anyway = after that: delivered anyway
stream-all-partitions = all partitions
stream-before-the-oldest = { $gone } before the oldest
stream-consumer = CONSUMER
stream-consumer-has-no-details-beyond = a consumer has no details beyond its row
stream-consumer-or-node = a consumer, or a node for its consumer
stream-delivered = delivered
stream-enter-consumer-that-receives-them = enter the consumer that receives them
stream-entries-are-redelivered =
    { $again ->
        [one] { $again } entry is
       *[other] { $again } entries are
    } redelivered: from { $first } ({ $from }) to { $to }.
stream-entries-are-redelivered-in-partitions =
    { $again ->
        [one] { $again } entry is
       *[other] { $again } entries are
    } redelivered in { $count } partitions.
stream-entry-is-not-pending = the entry is not pending and cannot be transferred
stream-following = following
stream-from = From
stream-give-entry = Transfer entry { $entry }
stream-give-of =
    Transfer { $pending ->
        [one] { $pending } entry
       *[other] { $pending } entries
    } of { $holder }
stream-grows-by = +{ $rate }
stream-held-at-press-to-follow = held at { $at }; press { KEY("last") } to follow
stream-holds-entries-which-would =
    { $name } holds { $held ->
        [one] { $held } entry
       *[other] { $held } entries
    }, which would be lost; press { KEY("claim") } to transfer them first
stream-holds-no-entries-to-transfer = { $name } holds no entries to transfer
stream-in-dead-letters = in dead letters
stream-in-partition-only = { $number ->
    [all] In all partitions.
   *[other] In partition { $number } only.
}
stream-in-sql-already-acknowledged = already in SQL: acknowledged
stream-kept = kept
stream-made-there =
    { $made ->
        [one] { $made } group is gone and is
       *[other] { $made } groups are gone and are
    } recreated there.
stream-malformed-become-dead-letters = malformed: moved to the dead letters
stream-newest = newest
stream-no-consumer-of-another-live = no consumer of another live node can take it; start a node first
stream-no-consumer-reads-the-stream = no consumer reads the stream
stream-no-pending-entries-entries-wait =
    No pending entries. { $count ->
        [one] { $count } entry waits
       *[other] { $count } entries wait
    } in the stream ({ KEY("stream") }).
stream-no-pending-entries-every-delivered = No pending entries. Every delivered order is written.
stream-no-pending-entries-lag = No pending entries. The lag of the stream is unknown ({ KEY("stream") }).
stream-node-of-is-alive = the node of { $name } is alive and would recreate it
stream-not-counted-added = not counted; { $added } added
stream-not-in-sql-written-if = not in SQL: written if stock is left
stream-nothing-changes-yet-confirmation = Nothing changes yet: a confirmation with exact counts follows.
stream-nothing-yet = nothing yet
stream-number-of-its-day-issued = { $id }, number { $sequence } of its day, issued { $issued }
stream-of-added = { $read } of { $added } added
stream-of-these-no-longer-assigned = of these: no longer assigned to a buyer
stream-of-these-not-in-sql = of these: not in SQL, SKIPPED
stream-older-entries-are-trimmed = older entries are trimmed and lost
stream-older-not-delivered = older entries are not delivered
stream-oldest = oldest
stream-opens-them = { $text }; press { KEY("letters") } to open
stream-partition = PARTITION
stream-partition-of-0-to = partition { $number } of 0 to { $last }
stream-pending-now-once = pending now: processed only once
stream-pending-with-idle-delivered =
    pending with { $consumer }, idle { $idle }, delivered { $times ->
        [one] { $times } time
       *[other] { $times } times
    }
stream-press-to-show-or-mask = { $user }   press { KEY("users") } to show or mask
stream-preview = Preview
stream-read = read
stream-redeliver-entries = Redeliver entries
stream-select-consumer-in-list-above = select a consumer in the list above with { KEY("up") } and { KEY("down") }, then press { KEY("remove-consumer") } again
stream-start-entry-id-or-10m = start, an entry ID, 14:30 or -10m
stream-state = state
stream-statistics-are-ready = the statistics are ready
stream-stopped = stopped
stream-stream-is-empty-each-admitted = The stream is empty. Each admitted buyer adds an entry.
stream-there-is-only-one-partition = there is only one partition
stream-to = To
stream-too-many-dead-letters = { $text }: too many dead letters to check all; press { KEY("letters") } to open them
stream-trimmed = trimmed
stream-users = { $are_masked ->
    [true] users are masked
   *[false] users are shown
}
stream-waiting = waiting

## subject

subject-begins = , begins at { $begin }
subject-claim = { $count ->
    [one] 1 entry
   *[other] { $count } entries
} of partition { $partition } from '{ $from }' to '{ $to }'
subject-claim-forced = ; forced
subject-compensated = , with compensation
subject-consumer = '{ $name }'
subject-consumer-of = '{ $name }' in partition { $partition }
subject-ends = , ends at { $end }
subject-findings = #{ $sale }: { $findings }
subject-forced = , forced
subject-letters = { $count ->
    [one] 1 dead letter
   *[other] { $count } dead letters
}
subject-letters-all = all dead letters
subject-letters-matching = dead letters matching '{ $filter }'
subject-limit = , limit { $limit }
subject-lock = '{ $name }' held by { $owner }
subject-new-sale = '{ $title }', stock { $stock }
subject-new-voucher = '{ $title }', price { $pay } cents, face value { $actual } cents, { $status ->
    [on] on
    [off] off
   *[expired] expired
}
subject-partition = partition { $number }
subject-partition-count = { $from } to { $to }
subject-partition-no-group-to-redelivers = partition { $partition } (no group) to { $from }: redelivers { $again ->
    [one] 1 entry
   *[other] { $again } entries
}
subject-pieces = #{ $sale } by { $count }
subject-plan = { $entries ->
    [one] 1 entry
   *[other] { $entries } entries
} of plan { $digest }
subject-plan-filtered = { $entries ->
    [one] 1 entry
   *[other] { $entries } entries
} of plan { $digest }, '{ $filter }'
subject-rewind = partition { $partition } (delivered up to { $was }) to { $from }: redelivers { $again ->
    [one] 1 entry
   *[other] { $again } entries
}
subject-rules = , rules '{ $text }'
subject-rush = #{ $sale }, { $users ->
    [one] 1 buyer
   *[other] { $users } buyers
}, seed { $seed }
subject-shards = , { $shards } shards
subject-shop = , shop { $shop }
subject-sub-title = , subtitle '{ $text }'
subject-users = { $count ->
    [one] 1 user
   *[other] { $count } users
}

## tables

tables-2xx = 2XX
tables-4xx = 4XX
tables-5xx = 5XX
tables-address = ADDRESS
tables-admitted = ADMITTED
tables-age = AGE
tables-buyers = BUYERS
tables-connections = CONNECTIONS
tables-depth = DEPTH
tables-entry = ENTRY
tables-fault = fault
tables-held = HELD
tables-holder = HOLDER
tables-id = ID
tables-idle = IDLE
tables-in-flight = IN FLIGHT
tables-in-progress = IN PROGRESS
tables-initial = INITIAL
tables-job = JOB
tables-last = LAST
tables-lease = LEASE
tables-last-minute = LAST MIN
tables-left = LEFT
tables-left-in-redis = left in Redis
tables-left-in-sql = left in SQL
tables-letter = LETTER
tables-limited = LIMITED
tables-lock = LOCK
tables-next = NEXT
tables-node = node
tables-none-its-fields-are-valid = none; its fields are valid
tables-of = OF
tables-on-sale = initial stock
tables-order = ORDER
tables-outcome = OUTCOME
tables-owner = OWNER
tables-p50 = P50
tables-p99 = P99
tables-persisted = PERSISTED
tables-phase = PHASE
tables-reason = REASON
tables-redis-left = REDIS LEFT
tables-replays = REPLAYS
tables-requests-per-second = REQUESTS/S
tables-result = RESULT
tables-rows = ROWS
tables-sale = SALE
tables-schedule = SCHEDULE
tables-sql-left = SQL LEFT
tables-sql-orders = SQL ORDERS
tables-stock-left = STOCK LEFT
tables-task = TASK
tables-title = TITLE
tables-token = TOKEN
tables-took = TOOK
tables-tries = TRIES
tables-under-way = in flight
tables-user = user
tables-verdict = VERDICT
tables-waiting = WAITING
tables-window = WINDOW
tables-written-per-second = ORDERS/S

## terminal

terminal-console-does-not-support-use = the console does not support { $term ->
        [none] an unknown terminal (TERM is not set)
       *[other] terminal type '{ $term }'
    }; use 'seckill status' or 'seckill demo --headless', or set the type, such as TERM=xterm-256color
terminal-console-requires-terminal-use-seckill = the console requires a terminal; without one, use 'seckill status --json', 'seckill demo --headless', 'seckill lab NAME' or 'seckill attach status'
terminal-is-not-utf-locale-drawing = { $locale } is not a UTF-8 locale: { $in_ascii ->
        [true] drawing in ASCII; use a UTF-8 locale such as C.UTF-8 for the full display
       *[false] drawing in UTF-8 because of --lang zh
    }
terminal-terminal-error-run-seckill-doctor = terminal error: { $why }; run 'seckill doctor' to check it

## theme

theme-not-a-file = not a theme file

## time

time-and-more = { $more ->
    [0] {""}
   *[other] {"  "}and { $more } more
}
time-display-paused-and-step-through = display paused; { KEY("earlier") } and { KEY("later") } step through history, { KEY("freeze") } resumes
time-last-min = last { $minutes } min
time-last-s = last { $seconds } s
time-no-data-for-that-moment = no data for that moment
time-no-mark = { $later ->
    [true] no later command or alarm
   *[false] no earlier command or alarm in the chart
}
time-out-of-range = out of range
time-start-of-chart-press = start of the chart; press { KEY("zoom-out") } for a longer range
time-this-is-latest-moment = this is the latest moment
time-values-of-rest-is-current = values of { $clock }; rest is current
time-window-is-too-small = the window is too small for the chart; use at least 80x24

## view

view-activity = Activity
    .help = go to Activity
    .name = activity
view-attach = Attached service
    .help = go to the attached service
    .name = attached service
view-http = HTTP
    .help = go to HTTP
    .name = http servers
view-jobs = Jobs
    .help = go to Jobs
    .name = jobs
view-lab = Lab
    .help = go to Lab
    .name = lab
view-ledger = Ledger
    .help = go to Ledger
    .name = ledger (audit)
view-letters = Dead letters
    .help = go to Dead letters
    .name = dead letters
    .tab = Dead
view-locks = Locks
    .help = go to Locks
    .name = locks
view-orders = Orders
    .help = go to Orders
    .name = orders
view-overview = Overview
    .help = go to Overview
    .name = overview
view-pending = Pending
    .help = go to Pending
    .name = pending
view-sales = Sales
    .help = go to Sales
    .name = sales
view-stream = Stream
    .help = go to Stream
    .name = stream
