//! Words of why nothing starts: the URLs, the data directory, the Redis server of its own, and the database that was
//! named. In Chinese only: in English each fault tells itself.

use seckill_engine::refusal::{
    DataDirError, FORMS, FileFault, HostsFault, MYSQL_PARAMETERS, POSTGRES_PARAMETERS,
    RedisUrlFault, SchemaFault, ServerError, SqlUrlFault,
    url_fault::{CLUSTER_FORM, SENTINELS_FORM, SERVER_FORM, SOCKET_FORM},
};

use super::{figures::thousands, system};

pub(super) fn redis_url(fault: &RedisUrlFault) -> String {
    match fault {
        RedisUrlFault::Scheme(got) => {
            let got = got.as_ref().map_or_else(String::new, |got| format!("，而不是“{got}”"));
            format!(
                "Redis 地址须以 redis://、rediss://、unix://、redis+sentinel:// 或 redis+cluster:// 开头{got}；例如 redis://127.0.0.1:6379"
            )
        }
        // The library has no more to say than that.
        RedisUrlFault::Unreadable(_) => {
            format!("Redis 地址无法识别；形如 {SERVER_FORM} 或 {SOCKET_FORM}")
        }
        RedisUrlFault::Sentinels(fault) => {
            let fault = hosts(*fault);
            format!("哨兵地址无法识别：{fault}；形如 {SENTINELS_FORM}")
        }
        RedisUrlFault::Cluster(fault) => {
            let fault = hosts(*fault);
            format!("集群地址无法识别：{fault}；形如 {CLUSTER_FORM}")
        }
        RedisUrlFault::NoCluster(place) => {
            format!("{place} 的 Redis 是单台服务器而非集群，其地址以 redis:// 或 rediss:// 开头")
        }
        RedisUrlFault::Ca(path, why) => format!(
            "--redis-ca {path} 的证书不可用（{}），请给出签发服务器证书的机构的 PEM 证书文件",
            system::said(why)
        ),
        RedisUrlFault::CaUnused => {
            "--redis-ca 用于加密的 Redis，其地址以 rediss:// 或 rediss+cluster:// 开头；否则请去掉 --redis-ca".to_owned()
        }
        RedisUrlFault::CaOfSentinels => {
            "--redis-ca 不能用于哨兵；请把签发机构加入系统证书，或用 SSL_CERT_FILE 指定该文件".to_owned()
        }
        RedisUrlFault::Unusable(words) => format!("Redis 地址不可用（{words}）"),
    }
}

fn hosts(fault: HostsFault) -> &'static str {
    match fault {
        HostsFault::Service => "主机之后应为服务的名称",
        HostsFault::None => "没有主机",
        HostsFault::Missing => "缺少一个主机",
        HostsFault::Host => "主机、端口或数据库有误",
        HostsFault::HostsOnly => "只能填主机",
        HostsFault::Parameters => "问号之后只能有 sentinel_user 和 sentinel_pass",
        HostsFault::NoParameters => "问号之后不能有内容",
        HostsFault::Databases => "集群没有可选的数据库",
        HostsFault::Password => "密码中的 /、?、#、@ 须写成 %2F、%3F、%23、%40",
    }
}

pub(super) fn sql_url(fault: &SqlUrlFault) -> String {
    let what = match fault {
        SqlUrlFault::NoScheme => "数据库地址没有写明类型".to_owned(),
        SqlUrlFault::Scheme => "数据库地址的类型未知".to_owned(),
        SqlUrlFault::Unreadable(words) => format!("数据库地址无法识别（{words}）"),
        SqlUrlFault::NoHost => "数据库地址没有主机".to_owned(),
        SqlUrlFault::Memory => "sqlite::memory: 不可用，因为多个连接共用数据库".to_owned(),
        SqlUrlFault::Parameters => "SQLite 地址不带参数（文件名中的问号请写成 %3F）".to_owned(),
        SqlUrlFault::NoFile => "数据库地址没有文件".to_owned(),
        SqlUrlFault::Mysql(name) => return parameter(name, MYSQL_PARAMETERS),
        SqlUrlFault::Postgres(name) => return parameter(name, POSTGRES_PARAMETERS),
        SqlUrlFault::NoDatabase(form) => return format!("数据库地址没有数据库名；请写成 {form}"),
        SqlUrlFault::Unusable(words) => return format!("数据库地址不可用（{words}），请更正"),
    };
    let forms = FORMS.replace(" or ", " 或 ").replace(", ", "、");
    format!("{what}；请写成 {forms}")
}

fn parameter(name: &str, known: &[&str]) -> String {
    format!("数据库地址的参数“{name}”未知；可用 {}", known.join("、"))
}

pub(super) fn sql_file(fault: &FileFault) -> String {
    match fault {
        FileFault::NotUtf8(path) => {
            format!("{path} 不是 SQLite 所需的 UTF-8，请另指定 --database")
        }
        FileFault::NotADirectory(at) => format!("{at} 不是目录，请另指定 --database"),
        FileFault::NoDirectory(at) => format!("目录 {at} 不存在，请创建，或另指定 --database"),
        FileFault::Closed(at, why) => {
            format!("无法进入 {at}（{}），请另指定 --database", system::said(why))
        }
        FileFault::NotAFile(path) => format!("{path} 不是文件，--database 须为文件的路径"),
        FileFault::Unreadable(path, why) => {
            format!("无法读取 {path}（{}），请另指定 --database", system::said(why))
        }
        FileFault::ReadOnlySystem(path) => {
            format!("{path} 位于只读的文件系统，请更改，或另指定 --database")
        }
        FileFault::Denied(path) => {
            format!("当前用户不能写入 {path}，请更改权限，或另指定 --database")
        }
        FileFault::Unusable(path, why) => {
            format!("{path} 不可用（{}），请另指定 --database", system::said(why))
        }
        FileFault::NoDatabase(path) => {
            format!("{path} 不是 SQLite 数据库，或已损坏，请另指定 --database")
        }
        FileFault::CantOpen(path) => {
            format!("无法作为数据库打开 {path}，请检查所在目录，或另指定 --database")
        }
        FileFault::ReadOnly(path) => {
            format!("{path} 只读，请使文件及其目录可写，或另指定 --database")
        }
        FileFault::Removed(path) => format!(
            "{path} 在使用中被删除：此后写入的数据会在进程结束时丢失；请停止所有 seckill 进程，换上备份后重新启动"
        ),
        FileFault::Replaced(path) => format!(
            "{path} 在使用中被替换：此后写入的数据不会进入新文件；请停止所有 seckill 进程后重新启动"
        ),
        FileFault::Damaged(words) => format!("数据库文件已损坏（{words}），请换上备份"),
        FileFault::Foreign(place, tables) => {
            format!("{place} 中有其他程序的表（{tables}），请另指定 --database")
        }
    }
}

pub(super) fn sql_schema(fault: &SchemaFault) -> String {
    match fault {
        SchemaFault::Newer(version, known) => format!(
            "该数据库的结构版本为 {version}，由更新的 seckill 创建，当前程序只支持到 {known}；请升级 seckill，或另指定 --database"
        ),
        SchemaFault::Other(version) => format!(
            "该数据库的结构版本 {version} 与当前 seckill 的不同；请用创建它的 seckill，或另指定 --database"
        ),
        SchemaFault::HalfDone(version) => {
            format!("该数据库的结构版本 {version} 只完成了一半；请换上备份，或另指定 --database")
        }
        SchemaFault::Stuck(words) => {
            format!("该数据库的结构无法升级（{words}），请另指定 --database")
        }
        SchemaFault::Changed(words) => format!("表结构被他人更改：{words}；恢复后会继续"),
        SchemaFault::OldServer { version, oldest } => {
            format!("服务器为 {version}，最低需要 {}", oldest.join(" 或 "))
        }
        SchemaFault::Encoding(encoding) => {
            format!("该数据库的文本编码为 {encoding}，请以 ENCODING 'UTF8' 新建一个")
        }
        SchemaFault::NoSchema => {
            "该用户的 search_path 中没有存在的模式，请创建，或另设一个".to_owned()
        }
    }
}

pub(super) fn redis_server(error: &ServerError) -> String {
    match error {
        ServerError::NotInstalled { passed_over, install } => {
            let found = passed_over.iter().map(|(path, version)| match version {
                Some(version) => format!("{} 为 {version}", path.display()),
                None => format!("{} 不是服务器", path.display()),
            });
            let found = match found.collect::<Vec<_>>().join("，") {
                none if none.is_empty() => "PATH 中没有".to_owned(),
                found => found,
            };
            format!(
                "需要 7.0 或更高版本的 Redis 或 Valkey 服务器（{found}）；请安装：{install}，或指定 --redis URL"
            )
        }
        ServerError::Unwritten(dir) => format!(
            "Redis 服务器仍在运行：它无法把最后的应答写入 {}；请腾出磁盘空间，再启动并退出一次 seckill",
            dir.display()
        ),
        ServerError::Spawn { path, why } => format!(
            "无法启动 {}（{}），请重新安装，或指定 --redis URL",
            path.display(),
            system::said(why)
        ),
        ServerError::Died { why, log } => {
            format!("Redis 服务器随即退出：{}；详见 {}", system::said(why), log.display())
        }
        ServerError::Damaged { dir, manifest } => format!(
            "Redis 服务器的追加文件已损坏；请备份 {}，再运行：redis-check-aof --fix {}",
            dir.display(),
            manifest.display()
        ),
        ServerError::Full(dir) => {
            format!("{} 所在磁盘已满，Redis 服务器无法启动，请腾出空间", dir.display())
        }
        ServerError::Foreign { socket, dir } => format!(
            "{} 处的服务器工作在 {}，不是此处；请停止它，或另指定 --data-dir",
            socket.display(),
            dir.display()
        ),
        ServerError::Silent { lock, socket, log } => format!(
            "有 Redis 服务器占用 {}，但在 {} 没有应答；请查看 {}，并停止它",
            lock.display(),
            socket.display(),
            log.display()
        ),
        ServerError::Loading(seconds) => {
            format!("{seconds} 秒后 Redis 服务器仍在读取追加文件，请稍后再试")
        }
        ServerError::Stuck(socket) => {
            let socket = socket.display();
            format!("{socket} 的 Redis 服务器没有退出，请用 redis-cli -s {socket} shutdown 停止")
        }
        ServerError::Detached => "本进程已放弃 Redis 服务器，请重新启动".to_owned(),
        ServerError::Dir(error) => data_dir(error),
        ServerError::Ending => "程序正在退出，不再管理 Redis 服务器".to_owned(),
    }
}

fn data_dir(error: &DataDirError) -> String {
    match error {
        DataDirError::NotADirectory(path) => {
            format!("{} 不是目录，请另指定 --data-dir", path.display())
        }
        DataDirError::Denied(path) => {
            format!("当前用户不能写入 {}，请更改其所有者，或另指定 --data-dir", path.display())
        }
        DataDirError::ReadOnly(path) => {
            format!("{} 位于只读的文件系统，请另指定 --data-dir", path.display())
        }
        DataDirError::Full(path) => {
            format!("{} 所在磁盘已满，请腾出空间，或另指定 --data-dir", path.display())
        }
        DataDirError::Closing(path, seconds) => {
            format!("另一个 seckill 正在关闭 {}，已有 {seconds} 秒，请等待或结束它", path.display())
        }
        DataDirError::NoHome => "没有可存放数据的主目录，请指定 --data-dir".to_owned(),
        DataDirError::Shared(path) => {
            format!("{} 属于他人或对他人开放，请删除它，或设置 TMPDIR", path.display())
        }
        DataDirError::Crowded(path, nodes) => {
            format!(
                "已有 {} 个进程在使用 {}，请结束一些",
                thousands(u64::from(*nodes)),
                path.display()
            )
        }
        DataDirError::Gone(path) => format!(
            "{} 在使用中被删除：其中的数据已丢失，此后不再受理请求；请停止所有 seckill 进程，换上备份后重新启动",
            path.display()
        ),
        DataDirError::Io { path, why } => {
            format!("{} 不可用（{}），请另指定 --data-dir", path.display(), system::said(why))
        }
    }
}
