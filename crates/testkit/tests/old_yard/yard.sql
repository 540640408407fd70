-- A data folder as a server of schema 5 left it: dumped from its database, with its files beside it. See ../old_yard.rs.
PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
CREATE TABLE audit (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (job, number)
);
INSERT INTO "audit" VALUES(1,1,'{"actor":"operator","at":"2026-11-18T01:30:04.222Z","facts":{"by":"local","egress":[],"env":[],"files":[],"files_count":0,"git":false,"input_sha256":"c98f33cf8e23743f4b656e059f971146dd8046a4641573c23c79ead9290acd5b","isolation":"any","kind":"task","model":"replay:/tmp/old-yard-1/models.jsonl","request_sha256":"74fe95c26b190f9fcb77f4d84dc7146bce1794da927a17e6bb4d72cecf67a08d"},"hash":"e9992f187315475373d135ef05c393cfd6a2a1e32b1c598df0bd579d72fc7a33","kind":"schedule","number":1,"previous":"124ac9f6d231fad2d29109ea46e8b3fd7233d28934d073f9d94689ee02714e20"}');
INSERT INTO "audit" VALUES(1,2,'{"actor":"host","at":"2026-11-18T01:30:04.222Z","facts":{"driver":"fake","runtime":"none","state":"starting"},"hash":"95a837c021810f7a6cdc034b2a1b335ee031b0efc19af5a2e21fc064de7823ce","kind":"state","number":2,"previous":"e9992f187315475373d135ef05c393cfd6a2a1e32b1c598df0bd579d72fc7a33"}');
INSERT INTO "audit" VALUES(1,3,'{"actor":"host","at":"2026-11-18T01:30:04.232Z","facts":{"state":"running"},"hash":"d4cc8c3d928ed319ac6655e4e3820298a97d7ddb3f334f3aff4ab3a1d5d21352","kind":"state","number":3,"previous":"95a837c021810f7a6cdc034b2a1b335ee031b0efc19af5a2e21fc064de7823ce"}');
INSERT INTO "audit" VALUES(1,4,'{"actor":"host","at":"2026-11-18T01:30:04.236Z","facts":{"calls":1,"model":"replay:/tmp/old-yard-1/models.jsonl","outcome":"answered","picousd":null,"sha256":"d46198c27f886147bab37c313c5f93a8cd213649b6c13ab1bc288038a349bc71","tokens_cached":0,"tokens_in":100,"tokens_out":10},"hash":"5375b4abd0988e336498029b05bff1be1311a8b8200f08ff260d3e548645c0f3","kind":"model","number":4,"previous":"d4cc8c3d928ed319ac6655e4e3820298a97d7ddb3f334f3aff4ab3a1d5d21352"}');
INSERT INTO "audit" VALUES(1,5,'{"actor":"agent","at":"2026-11-18T01:30:04.237Z","facts":{"bytes":16,"call":"call_0","sha256":"4cf29611a66934862f29acfcc817e30b905c1ab73d5e65831413eb6b454d49db","tool":"shell"},"hash":"d7e5f0c3b21579444640d894e11c2968aa209665738fcc438c1aca0b91594599","kind":"step","number":5,"previous":"5375b4abd0988e336498029b05bff1be1311a8b8200f08ff260d3e548645c0f3"}');
INSERT INTO "audit" VALUES(1,6,'{"actor":"agent","at":"2026-11-18T01:30:04.238Z","facts":{"call":"call_0","failed":false,"files":["src/app.ts"],"interrupted":false,"sha256":"1e03f5c9100049b6cd28872597f9814b6edde5b5c7415620c348f0e7811c4619","took_ms":12,"tool":"shell"},"hash":"2494291326f082110e78163e80406d8611f048d4c75c535f9e05df351603be70","kind":"step_ended","number":6,"previous":"d7e5f0c3b21579444640d894e11c2968aa209665738fcc438c1aca0b91594599"}');
INSERT INTO "audit" VALUES(1,7,'{"actor":"agent","at":"2026-11-18T01:30:04.240Z","facts":{"done":true,"sha256":"76dd1db27288cc97a67c408db0dee8f593cce3d183ef8556ce93cf3511a4dfdc"},"hash":"ee524587e9d094d11e5c1194c2b7993e293f8f7f0fb5aab5ac26092419887acb","kind":"finished","number":7,"previous":"2494291326f082110e78163e80406d8611f048d4c75c535f9e05df351603be70"}');
INSERT INTO "audit" VALUES(1,8,'{"actor":"host","at":"2026-11-18T01:30:04.241Z","facts":{"state":"finishing"},"hash":"97d4fc68b3256ca8c6ba61b55904ccba596811eacf0357bff41d4c76080402ec","kind":"state","number":8,"previous":"ee524587e9d094d11e5c1194c2b7993e293f8f7f0fb5aab5ac26092419887acb"}');
INSERT INTO "audit" VALUES(1,9,'{"actor":"host","at":"2026-11-18T01:30:04.243Z","facts":{"bytes":1009,"entries":3,"manifest":".sandyard/files.jsonl","manifest_sha256":"d685e10fb1035cf28ccaf5b65d0dafc2463c21a7297acefd49a39477be32b85d"},"hash":"140c08fe56dfd2a3dbad3427d2f6b20b4b7d4fa8a91adb4e66b3e0a091c36a80","kind":"export","number":9,"previous":"97d4fc68b3256ca8c6ba61b55904ccba596811eacf0357bff41d4c76080402ec"}');
INSERT INTO "audit" VALUES(1,10,'{"actor":"host","at":"2026-11-18T01:30:04.245Z","facts":{"bytes":3559,"left_out":1,"sha256":"feddcfad3e014ad45ba085e61928a4bf18ddc710a2be74ab6925bc9b58e37d87"},"hash":"396f61dae4c50162de6fcc245c6a70d4c8238eb2bdc37fc117f272d6cafa4afe","kind":"artifact","number":10,"previous":"140c08fe56dfd2a3dbad3427d2f6b20b4b7d4fa8a91adb4e66b3e0a091c36a80"}');
INSERT INTO "audit" VALUES(1,11,'{"actor":"host","at":"2026-11-18T01:30:04.245Z","facts":{"exit_code":0,"state":"succeeded"},"hash":"be7ba14fc922ffbfd9e445b09ac437aaaf0b27f75395f987250130afd3a76b31","kind":"state","number":11,"previous":"396f61dae4c50162de6fcc245c6a70d4c8238eb2bdc37fc117f272d6cafa4afe"}');
INSERT INTO "audit" VALUES(2,1,'{"actor":"operator","at":"2026-11-18T01:30:05.288Z","facts":{"by":"local","egress":[],"env":[],"files":[{"path":"given.txt","sha256":"c046b871119bced3d18f16bf6382333a764fe04d8f157c0a32f6c20f232d0bf9","size":6}],"files_count":1,"git":false,"input_sha256":"beedd21073528c4d3e96328ba32ead2a36df3a5f7c1a2d7aff16b1ecd4919973","isolation":"any","kind":"shell","model":null,"request_sha256":"accfac3504802ad439d87907403ace40e091d25743aa860c9910e21a5075fe06"},"hash":"c25c8e7ff8d5763f1d322006945452e0d30fa310b0760fe11f9f881c462dcbbd","kind":"schedule","number":1,"previous":"7dfb1af7d8ff4f95e61bc11ec5b63574e7a5c7666a084a188f0495674e8548ec"}');
INSERT INTO "audit" VALUES(2,2,'{"actor":"host","at":"2026-11-18T01:30:05.288Z","facts":{"driver":"fake","runtime":"none","state":"starting"},"hash":"64003b182b09bbd05fe09dcbb9d1a6c9d95927b8f2c17e0c4afe0ce6264f023a","kind":"state","number":2,"previous":"c25c8e7ff8d5763f1d322006945452e0d30fa310b0760fe11f9f881c462dcbbd"}');
INSERT INTO "audit" VALUES(2,3,'{"actor":"host","at":"2026-11-18T01:30:05.304Z","facts":{"state":"running"},"hash":"1d0b0de94713f13228b12ed5ce4e511896e550664e8a09002f7017fcfe8141f9","kind":"state","number":3,"previous":"64003b182b09bbd05fe09dcbb9d1a6c9d95927b8f2c17e0c4afe0ce6264f023a"}');
INSERT INTO "audit" VALUES(2,4,'{"actor":"host","at":"2026-11-18T01:30:05.313Z","facts":{"state":"finishing"},"hash":"8b351a6602005cfb5f4760f4dc84db748b44d5d6a428181f4f20203ed4e637c6","kind":"state","number":4,"previous":"1d0b0de94713f13228b12ed5ce4e511896e550664e8a09002f7017fcfe8141f9"}');
INSERT INTO "audit" VALUES(2,5,'{"actor":"host","at":"2026-11-18T01:30:05.491Z","facts":{"bytes":137,"entries":3,"manifest":".sandyard/files.jsonl","manifest_sha256":"c1ceab9012499e9c0b92518683773469a15bbff94dfbace8fd784bbce69f5069"},"hash":"cc75bbc87bcf2b6b1bb381c5c0c90cf767f67ab426fb77e3d2ff6e71ddc8cc35","kind":"export","number":5,"previous":"8b351a6602005cfb5f4760f4dc84db748b44d5d6a428181f4f20203ed4e637c6"}');
INSERT INTO "audit" VALUES(2,6,'{"actor":"host","at":"2026-11-18T01:30:05.496Z","facts":{"bytes":2353,"left_out":0,"sha256":"f5ca6da87b5fe8ed96cfde7c87a2527f4787c3ef3fa6c3e7567f029216b73c31"},"hash":"5ea5721d39a7534e7af338a5acdbed221eedf22a584c64e23cd65ee3515eedf7","kind":"artifact","number":6,"previous":"cc75bbc87bcf2b6b1bb381c5c0c90cf767f67ab426fb77e3d2ff6e71ddc8cc35"}');
INSERT INTO "audit" VALUES(2,7,'{"actor":"host","at":"2026-11-18T01:30:05.496Z","facts":{"exit_code":0,"state":"succeeded"},"hash":"e09d3dda09ae3334b62d58b8e256bc4360e99161db8c40e29321a666a0b2267a","kind":"state","number":7,"previous":"5ea5721d39a7534e7af338a5acdbed221eedf22a584c64e23cd65ee3515eedf7"}');
INSERT INTO "audit" VALUES(3,1,'{"actor":"operator","at":"2026-11-18T01:30:05.501Z","facts":{"by":"local","egress":[],"env":[],"files":[],"files_count":0,"git":false,"input_sha256":"8cc15847cf432ae3b741b707f1b64823395434e81e8866f7ef48ce6f190ac8dd","isolation":"any","kind":"shell","model":null,"request_sha256":"7fb43663ad9711b75ae44868d25f9d6b2d8dad8caddc9bfaf90e15594cf79f09"},"hash":"2e455326759b252171ff6986686b994c07de9ab3c8bbeaa8ec83e3059e2d420f","kind":"schedule","number":1,"previous":"2e17a1c2ec6927ca2b8770793513651c65d6b7d34690fc81b2f068be3985afbe"}');
INSERT INTO "audit" VALUES(3,2,'{"actor":"host","at":"2026-11-18T01:30:05.501Z","facts":{"driver":"fake","runtime":"none","state":"starting"},"hash":"8a3ad81c4cf2d27c748e9306d0f4c81884522c116aaa7b2b7e8a19523466447d","kind":"state","number":2,"previous":"2e455326759b252171ff6986686b994c07de9ab3c8bbeaa8ec83e3059e2d420f"}');
INSERT INTO "audit" VALUES(3,3,'{"actor":"host","at":"2026-11-18T01:30:05.515Z","facts":{"state":"running"},"hash":"c36174ff941d19ec236db3478dd2ba92560f4302502691991a57281773097451","kind":"state","number":3,"previous":"8a3ad81c4cf2d27c748e9306d0f4c81884522c116aaa7b2b7e8a19523466447d"}');
INSERT INTO "audit" VALUES(3,4,'{"actor":"host","at":"2026-11-18T01:30:05.521Z","facts":{"reason":"exited with code 3","state":"finishing"},"hash":"ea3c3335f3b8027a7578b7f686d4603b1c8568f9aeb5ff70806c54c2c7041f94","kind":"state","number":4,"previous":"c36174ff941d19ec236db3478dd2ba92560f4302502691991a57281773097451"}');
INSERT INTO "audit" VALUES(3,5,'{"actor":"host","at":"2026-11-18T01:30:05.524Z","facts":{"bytes":0,"entries":0,"manifest":".sandyard/files.jsonl","manifest_sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"hash":"ee10cd5614231212bb1fb8213f0307c6045b1ed123b846f154d27603edb9a132","kind":"export","number":5,"previous":"ea3c3335f3b8027a7578b7f686d4603b1c8568f9aeb5ff70806c54c2c7041f94"}');
INSERT INTO "audit" VALUES(3,6,'{"actor":"host","at":"2026-11-18T01:30:05.525Z","facts":{"bytes":1567,"left_out":0,"sha256":"543189c8e3fef6222eb15ee9143259aa2e3ea50af51acc6f070bea041371ea1a"},"hash":"4ba64f239ca664874341b7b47a86022bca49a471e3dc3eeb7db26212b3298065","kind":"artifact","number":6,"previous":"ee10cd5614231212bb1fb8213f0307c6045b1ed123b846f154d27603edb9a132"}');
INSERT INTO "audit" VALUES(3,7,'{"actor":"host","at":"2026-11-18T01:30:05.525Z","facts":{"exit_code":3,"reason":"exited with code 3","state":"failed"},"hash":"02bf40366664960b361af6fcf4b37ebcc6b57709fcc8fdbaafe3d8f34b76434d","kind":"state","number":7,"previous":"4ba64f239ca664874341b7b47a86022bca49a471e3dc3eeb7db26212b3298065"}');
INSERT INTO "audit" VALUES(4,1,'{"actor":"operator","at":"2026-11-18T01:30:06.030Z","facts":{"by":"local","egress":[],"env":[],"files":[],"files_count":0,"git":false,"input_sha256":"7a7809a7f3a24b93a763b029362f1bbca8869f6812b28afb554364833fb379a0","isolation":"any","kind":"shell","model":null,"request_sha256":"91a96ad4f6b6746baaee44b20b6d43ec850aebef1e4f406b722c0a124d4aa16a"},"hash":"8b5e4f1229cc3fa20a465dcea371c2e5874bbd2554a475432f6f04f611a3999b","kind":"schedule","number":1,"previous":"abf5070f777abe40b990b2fbd68a8407db493234fc40ebd42fdaa46814be9aed"}');
INSERT INTO "audit" VALUES(4,2,'{"actor":"host","at":"2026-11-18T01:30:06.030Z","facts":{"driver":"fake","runtime":"none","state":"starting"},"hash":"e60ae72cf8a46b284118f66c9267f80215ab4dedfe421db21cc69c070c400a54","kind":"state","number":2,"previous":"8b5e4f1229cc3fa20a465dcea371c2e5874bbd2554a475432f6f04f611a3999b"}');
INSERT INTO "audit" VALUES(4,3,'{"actor":"host","at":"2026-11-18T01:30:06.056Z","facts":{"state":"running"},"hash":"b85e6c6573cf38d0c82f29604228119e138abb8dc0c73ef6198b5857e956a750","kind":"state","number":3,"previous":"e60ae72cf8a46b284118f66c9267f80215ab4dedfe421db21cc69c070c400a54"}');
INSERT INTO "audit" VALUES(5,1,'{"actor":"operator","at":"2026-11-18T01:30:07.885Z","facts":{"by":"local","egress":[],"env":[],"files":[],"files_count":0,"git":false,"input_sha256":"a650491b239d0a414078edc161a82ba3e089c190ea49c20a090fe2c8c465f754","isolation":"any","kind":"shell","model":null,"request_sha256":"197619fe90e805b4c37cf0ebbc9941c9caa071a03584fe11448901cba145bbd1"},"hash":"387c7ae5440a5eea6490a7dbb091eda79a87e0492a095c0dae4e3265cefaf605","kind":"schedule","number":1,"previous":"923be29b2b98f5f16cc22a5c91100f0c1168d4f534407e612810a87119806a6e"}');
INSERT INTO "audit" VALUES(5,2,'{"actor":"host","at":"2026-11-18T01:30:07.885Z","facts":{"driver":"fake","runtime":"none","state":"starting"},"hash":"4fbdf02200678c4499e0bb57e963566ec98cf0094cf118405bf3ae89315091bf","kind":"state","number":2,"previous":"387c7ae5440a5eea6490a7dbb091eda79a87e0492a095c0dae4e3265cefaf605"}');
INSERT INTO "audit" VALUES(6,1,'{"actor":"operator","at":"2026-11-18T01:30:07.892Z","facts":{"by":"local","egress":[],"env":[],"files":[],"files_count":0,"git":false,"input_sha256":"51891693e4afbf2dbd414cfaf98b9ff5881517926251cd6070d2a206be703faf","isolation":"any","kind":"shell","model":null,"request_sha256":"2091082c89cb0ba6400053f0a507e436b2418061b289a62140e70dc87cf679ae"},"hash":"0444e9584ff9efcd883538fc45362b1da80bf715a282ca97563b73f6c8005176","kind":"schedule","number":1,"previous":"0f39dc6a7dc73dba6d23f7b26916da11e778fbdf1893d10c16ef091b2e302b40"}');
CREATE TABLE chunks (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    stream INTEGER NOT NULL,
    number INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    bytes BLOB,
    PRIMARY KEY (job, stream, number)
);
INSERT INTO "chunks" VALUES(2,1,0,0,6,X'676976656E0A');
INSERT INTO "chunks" VALUES(2,2,0,0,8,X'74726F75626C650A');
INSERT INTO "chunks" VALUES(3,1,0,0,5,X'6C6F73740A');
INSERT INTO "chunks" VALUES(4,1,0,0,4,X'6F6E650A');
CREATE TABLE events (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (job, id)
) WITHOUT ROWID;
INSERT INTO "events" VALUES(1,1,'state',1794965404222,'{"state":"queued"}');
INSERT INTO "events" VALUES(1,2,'state',1794965404222,'{"state":"starting"}');
INSERT INTO "events" VALUES(1,3,'state',1794965404232,'{"state":"running"}');
INSERT INTO "events" VALUES(1,4,'step',1794965404237,'{"arguments":"{\"command\":\"ls\"}","call":"call_0","tool":"shell"}');
INSERT INTO "events" VALUES(1,5,'tool',1794965404238,'{"call":"call_0","failed":false,"interrupted":false,"output":"a.txt","took_ms":12,"tool":"shell"}');
INSERT INTO "events" VALUES(1,6,'file',1794965404238,'{"path":"src/app.ts"}');
INSERT INTO "events" VALUES(1,7,'plan',1794965404239,'{"items":[{"state":"done","text":"look"}]}');
INSERT INTO "events" VALUES(1,8,'model',1794965404241,'{"entry":2,"offset":0,"text":"Let me look."}');
INSERT INTO "events" VALUES(1,9,'model',1794965404241,'{"done":true,"entry":2,"model":"replay:/tmp/old-yard-1/models.jsonl","tokens_cached":0,"tokens_in":100,"tokens_out":10,"usd":null}');
INSERT INTO "events" VALUES(1,10,'state',1794965404241,'{"state":"finishing"}');
INSERT INTO "events" VALUES(1,11,'note',1794965404245,'{"text":"left out of the download: changes.patch: not in this script"}');
INSERT INTO "events" VALUES(1,12,'state',1794965404245,'{"exit_code":0,"state":"succeeded"}');
INSERT INTO "events" VALUES(2,1,'state',1794965405288,'{"state":"queued"}');
INSERT INTO "events" VALUES(2,2,'state',1794965405288,'{"state":"starting"}');
INSERT INTO "events" VALUES(2,3,'state',1794965405304,'{"state":"running"}');
INSERT INTO "events" VALUES(2,4,'stdout',1794965405313,'{"chunk":0,"length":6,"offset":0}');
INSERT INTO "events" VALUES(2,5,'stderr',1794965405313,'{"chunk":0,"length":8,"offset":0}');
INSERT INTO "events" VALUES(2,6,'state',1794965405313,'{"state":"finishing"}');
INSERT INTO "events" VALUES(2,7,'state',1794965405496,'{"exit_code":0,"state":"succeeded"}');
INSERT INTO "events" VALUES(3,1,'state',1794965405501,'{"state":"queued"}');
INSERT INTO "events" VALUES(3,2,'state',1794965405501,'{"state":"starting"}');
INSERT INTO "events" VALUES(3,3,'state',1794965405515,'{"state":"running"}');
INSERT INTO "events" VALUES(3,4,'stdout',1794965405515,'{"chunk":0,"length":5,"offset":0}');
INSERT INTO "events" VALUES(3,5,'state',1794965405521,'{"reason":"exited with code 3","state":"finishing"}');
INSERT INTO "events" VALUES(3,6,'state',1794965405525,'{"exit_code":3,"reason":"exited with code 3","state":"failed"}');
INSERT INTO "events" VALUES(4,1,'state',1794965406030,'{"state":"queued"}');
INSERT INTO "events" VALUES(4,2,'state',1794965406030,'{"state":"starting"}');
INSERT INTO "events" VALUES(4,3,'state',1794965406056,'{"state":"running"}');
INSERT INTO "events" VALUES(4,4,'stdout',1794965406056,'{"chunk":0,"length":4,"offset":0}');
INSERT INTO "events" VALUES(5,1,'state',1794965407885,'{"state":"queued"}');
INSERT INTO "events" VALUES(5,2,'state',1794965407885,'{"state":"starting"}');
INSERT INTO "events" VALUES(6,1,'state',1794965407892,'{"state":"queued"}');
CREATE TABLE idempotency_keys (
    key_sha256 BLOB PRIMARY KEY,
    body_sha256 BLOB NOT NULL,
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT,
    kind TEXT NOT NULL,
    limits TEXT NOT NULL,
    keep INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    reason TEXT,
    requested_isolation TEXT NOT NULL,
    driver TEXT,
    runtime TEXT,
    isolation_reason TEXT,
    started_ms INTEGER,
    finished_ms INTEGER,
    exit_code INTEGER,
    failure TEXT,
    usage TEXT,
    outcome TEXT,
    artifact_sha256 TEXT,
    artifact_bytes INTEGER,
    incarnation INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    begun INTEGER NOT NULL,
    secret BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    cancel_requested INTEGER NOT NULL,
    delete_requested INTEGER NOT NULL,
    open INTEGER NOT NULL,
    guest_sequence INTEGER NOT NULL,
    stdout_bytes INTEGER NOT NULL,
    stdout_dropped INTEGER NOT NULL,
    stdout_next_chunk INTEGER NOT NULL,
    stdout_tail_chunk INTEGER NOT NULL,
    stderr_bytes INTEGER NOT NULL,
    stderr_dropped INTEGER NOT NULL,
    stderr_next_chunk INTEGER NOT NULL,
    stderr_tail_chunk INTEGER NOT NULL,
    last_event INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    lease_owner TEXT,
    lease_until INTEGER NOT NULL DEFAULT 0
, egress_bytes INTEGER NOT NULL DEFAULT 0, task TEXT, journal_bytes INTEGER NOT NULL DEFAULT 0, audit TEXT, audit_bytes INTEGER NOT NULL DEFAULT 0, level TEXT);
INSERT INTO "jobs" VALUES(1,'sgnrpchphaowosggzlvqgue46y','task','task','{"machine":{"cpus":2.0,"memory_mib":64,"disk_mib":4096,"pids":1024},"timeout_s":60,"idle_timeout_s":null}',0,1794965404222,'succeeded','gone',NULL,'any','fake','none',NULL,1794965404232,1794965404245,0,NULL,'{"cpu_s":0.0,"peak_memory_bytes":0,"memory_kills":0,"pids_refused":0}','succeeded','feddcfad3e014ad45ba085e61928a4bf18ddc710a2be74ab6925bc9b58e37d87',3559,1,1,1,X'859165739D13E6A62768D8F973B97E69052D7E28CBD36DA6CF48B54BC604C0DF',1,0,0,0,2,0,0,0,0,0,0,0,0,12,12,'2nrqhb6lm4t5rms7kcds7hn5pq',4346411,0,'{"entries":6,"spent":{"steps":1,"tokens_in":100,"tokens_out":10,"money":0},"budget":null,"question":null,"waited_ms":0,"summary":"All **done**.","gave_up":null,"output_base":{"stdout":0,"stderr":0},"told":4,"open_steps":[]}',617,'{"records":11,"head":"be7ba14fc922ffbfd9e445b09ac437aaaf0b27f75395f987250130afd3a76b31","signature":"030d57b554d0424c1d45f7f5e21d53f9aa9e1b2d88ee07cb8b3fec5c61bc85f85e9d909a363e2f7fb994a9122877bee489f02de97852fa8b662b06a5f0e9a300","key":"e8ccbda7d1cf6a47ffe3816f258ca503988b64a702821ad093fee8dc8d8af9f9","counts":{"artifact":1,"export":1,"finished":1,"model":1,"schedule":1,"state":4,"step":1,"step_ended":1}}',3909,'none');
INSERT INTO "jobs" VALUES(2,'47rssjcivjvtrpjxctvc6nka3a','succeeded','shell','{"machine":{"cpus":2.0,"memory_mib":64,"disk_mib":4096,"pids":1024},"timeout_s":60,"idle_timeout_s":null}',0,1794965405288,'succeeded','gone',NULL,'any','fake','none',NULL,1794965405304,1794965405496,0,NULL,'{"cpu_s":0.0,"peak_memory_bytes":0,"memory_kills":0,"pids_refused":0}','succeeded','f5ca6da87b5fe8ed96cfde7c87a2527f4787c3ef3fa6c3e7567f029216b73c31',2353,1,1,1,X'54F02B3A6CB5EEA564CDB27DBE33EC295D6620584F51814E829C949D21057575',1,0,0,0,2,6,0,1,0,8,0,1,0,7,7,'ocnm6rd74f2tssiuqt6fu5pdzu',4347476,0,NULL,0,'{"records":7,"head":"e09d3dda09ae3334b62d58b8e256bc4360e99161db8c40e29321a666a0b2267a","signature":"fa4cacee92778d76ef1b7ff5c7b9e6a5c21a3cab073cbf4cb5b6f8e3c8f59d7111a68ef378967340c73790a5eb0c495387a20bb0207eb75b3b5b9dbd45a1a30b","key":"e8ccbda7d1cf6a47ffe3816f258ca503988b64a702821ad093fee8dc8d8af9f9","counts":{"artifact":1,"export":1,"schedule":1,"state":4}}',2423,'none');
INSERT INTO "jobs" VALUES(3,'7j3domqqcfpqpcps7bf2hnpwwq','failed','shell','{"machine":{"cpus":2.0,"memory_mib":64,"disk_mib":4096,"pids":1024},"timeout_s":60,"idle_timeout_s":null}',0,1794965405501,'failed','gone','exited with code 3','any','fake','none',NULL,1794965405515,1794965405525,3,'{"code":"nonzero_exit","message":"exited with code 3","hint":null}','{"cpu_s":0.0,"peak_memory_bytes":0,"memory_kills":0,"pids_refused":0}','failed','543189c8e3fef6222eb15ee9143259aa2e3ea50af51acc6f070bea041371ea1a',1567,1,1,1,X'6EBC1D0EDB0F274A0B1FA40D1CEBC628DA50BE4012E8CFD920C295086EDF970E',1,0,0,0,2,5,0,1,0,0,0,0,0,6,7,'ocnm6rd74f2tssiuqt6fu5pdzu',4347690,0,NULL,0,'{"records":7,"head":"02bf40366664960b361af6fcf4b37ebcc6b57709fcc8fdbaafe3d8f34b76434d","signature":"75e6af82ed54871b7e8ec6f67e0b7bfb424c1529286bb6b34f9ad1f7fba18ecaecaf80871738e6bb8dfd9e2879855b0ab4f435c8d20e64e651834f876540ba0e","key":"e8ccbda7d1cf6a47ffe3816f258ca503988b64a702821ad093fee8dc8d8af9f9","counts":{"artifact":1,"export":1,"schedule":1,"state":4}}',2373,'none');
INSERT INTO "jobs" VALUES(4,'sdiubbgap4nedqpg4ipehwipza','running','shell','{"machine":{"cpus":2.0,"memory_mib":64,"disk_mib":4096,"pids":1024},"timeout_s":60,"idle_timeout_s":null}',0,1794965406030,'running','live',NULL,'any','fake','none',NULL,1794965406056,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,1,1,X'8D8F3D9C8D75CDCECE59429FC7B16A84F52FBF17259CB7BA15EABC47E9077069',2,0,0,1,1,4,0,1,0,0,0,0,0,4,4,'3o27jm7nrrjjcqhcsa3lgyjp34',4348573,0,NULL,0,'{"records":3,"head":"b85e6c6573cf38d0c82f29604228119e138abb8dc0c73ef6198b5857e956a750","signature":"a22c686b6eeca32b44c1a81c9dba8c8213f7093068c696e1e0494866155a92129e33e634b62f2f215cc9a89dff45be261ae7c776e866b036e59e18693750cf04","key":"e8ccbda7d1cf6a47ffe3816f258ca503988b64a702821ad093fee8dc8d8af9f9","counts":{"schedule":1,"state":2}}',1070,'none');
INSERT INTO "jobs" VALUES(5,'5wnc2tws6sgzv7y3ffs2j5wum4','starting','shell','{"machine":{"cpus":2.0,"memory_mib":64,"disk_mib":4096,"pids":1024},"timeout_s":60,"idle_timeout_s":null}',0,1794965407885,'starting','starting',NULL,'any','fake','none',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1,1,0,X'5FD7B31E99244004CE3A49F1817B18B8DBDCF3077E5AA560DECFAE3306589D57',1,0,0,1,0,0,0,0,0,0,0,0,0,2,1,'3o27jm7nrrjjcqhcsa3lgyjp34',4350074,0,NULL,0,'{"records":2,"head":"4fbdf02200678c4499e0bb57e963566ec98cf0094cf118405bf3ae89315091bf","signature":"c9ea7795a5ca306e2eca420c48c325ec87ed9cc11536bf784ec18636f98f77c59643a09de0e70ce1c38945043b3cd819df0365b969d15efa3f90b36fc942cd08","key":"e8ccbda7d1cf6a47ffe3816f258ca503988b64a702821ad093fee8dc8d8af9f9","counts":{"schedule":1,"state":1}}',816,'none');
INSERT INTO "jobs" VALUES(6,'5moo6roij3etvqem7hca3jmmqy','queued','shell','{"machine":{"cpus":2.0,"memory_mib":64,"disk_mib":4096,"pids":1024},"timeout_s":60,"idle_timeout_s":null}',0,1794965407892,'queued','none',NULL,'any',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,X'50574448B97FDD3ADC99D82274C08735C8351F9857E28D38B1AAB02A74ED8952',0,0,0,1,0,0,0,0,0,0,0,0,0,1,0,NULL,0,0,NULL,0,'{"records":1,"head":"0444e9584ff9efcd883538fc45362b1da80bf715a282ca97563b73f6c8005176","signature":"089bbfbd22790326118efd967cb9a93708e48c76f803459d86cb63848aa7e0092ae075eeacefe2dc4cd5ec4a1ebddcdd092dceba7b2cba5f5110a3103916c008","key":"e8ccbda7d1cf6a47ffe3816f258ca503988b64a702821ad093fee8dc8d8af9f9","counts":{"schedule":1}}',528,NULL);
CREATE TABLE journal (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    entry TEXT NOT NULL,
    PRIMARY KEY (job, number)
);
INSERT INTO "journal" VALUES(1,1,'task',1794965404222,0,'{"kind":"task","text":"build a todo app"}');
INSERT INTO "journal" VALUES(1,2,'answer',1794965404236,1,'{"kind":"answer","model":"replay:/tmp/old-yard-1/models.jsonl","text":"Let me look.","calls":[{"id":"call_0","name":"shell","arguments":"{\"command\":\"ls\"}"}],"stop":"calls","usage":{"input":100,"cached":0,"cache_written":0,"output":10}}');
INSERT INTO "journal" VALUES(1,3,'step_began',1794965404237,1,'{"kind":"step_began","call":"call_0","name":"shell","arguments":"{\"command\":\"ls\"}"}');
INSERT INTO "journal" VALUES(1,4,'step_ended',1794965404238,1,'{"kind":"step_ended","call":"call_0","parts":[{"type":"text","text":"a.txt"}],"failed":false,"interrupted":false,"took_ms":12,"files":["src/app.ts"]}');
INSERT INTO "journal" VALUES(1,5,'plan',1794965404239,1,'{"kind":"plan","items":[{"text":"look","state":"done"}]}');
INSERT INTO "journal" VALUES(1,6,'finished',1794965404240,1,'{"kind":"finished","summary":"All **done**."}');
CREATE TABLE request_files (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    path TEXT NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (job, place)
);
CREATE TABLE requests (
    job INTEGER PRIMARY KEY REFERENCES jobs (number) ON DELETE CASCADE,
    request TEXT NOT NULL
);
INSERT INTO "requests" VALUES(1,'{"kind":"task","code":"build a todo app","name":"task","env":{},"isolation":"any","limits":{"cpus":null,"memory_mib":64,"disk_mib":null,"pids":null,"timeout_s":60,"idle_timeout_s":null},"keep":false,"egress":[],"git":null,"task":{"model":"replay:/tmp/old-yard-1/models.jsonl","budget":{"steps":null,"tokens":null,"usd":null,"on_breach":"ask"},"ask_timeout_s":86400,"on_silence":"end"}}');
INSERT INTO "requests" VALUES(2,'{"kind":"shell","code":"cat given.txt; echo trouble >&2; echo kept > kept.txt","name":"succeeded","env":{},"isolation":"any","limits":{"cpus":null,"memory_mib":64,"disk_mib":null,"pids":null,"timeout_s":60,"idle_timeout_s":null},"keep":false,"egress":[],"git":null,"task":{"model":null,"budget":{"steps":null,"tokens":null,"usd":null,"on_breach":"ask"},"ask_timeout_s":null,"on_silence":"end"}}');
INSERT INTO "requests" VALUES(3,'{"kind":"shell","code":"echo lost; exit 3","name":"failed","env":{},"isolation":"any","limits":{"cpus":null,"memory_mib":64,"disk_mib":null,"pids":null,"timeout_s":60,"idle_timeout_s":null},"keep":false,"egress":[],"git":null,"task":{"model":null,"budget":{"steps":null,"tokens":null,"usd":null,"on_breach":"ask"},"ask_timeout_s":null,"on_silence":"end"}}');
INSERT INTO "requests" VALUES(4,'{"kind":"shell","code":"echo one; touch printed; until [ -e go ]; do sleep 0.05; done; echo two","name":"running","env":{},"isolation":"any","limits":{"cpus":null,"memory_mib":64,"disk_mib":null,"pids":null,"timeout_s":60,"idle_timeout_s":null},"keep":false,"egress":[],"git":null,"task":{"model":null,"budget":{"steps":null,"tokens":null,"usd":null,"on_breach":"ask"},"ask_timeout_s":null,"on_silence":"end"}}');
INSERT INTO "requests" VALUES(5,'{"kind":"shell","code":"echo began","name":"starting","env":{},"isolation":"any","limits":{"cpus":null,"memory_mib":64,"disk_mib":null,"pids":null,"timeout_s":60,"idle_timeout_s":null},"keep":false,"egress":[],"git":null,"task":{"model":null,"budget":{"steps":null,"tokens":null,"usd":null,"on_breach":"ask"},"ask_timeout_s":null,"on_silence":"end"}}');
INSERT INTO "requests" VALUES(6,'{"kind":"shell","code":"echo waited","name":"queued","env":{},"isolation":"any","limits":{"cpus":null,"memory_mib":64,"disk_mib":null,"pids":null,"timeout_s":60,"idle_timeout_s":null},"keep":false,"egress":[],"git":null,"task":{"model":null,"budget":{"steps":null,"tokens":null,"usd":null,"on_breach":"ask"},"ask_timeout_s":null,"on_silence":"end"}}');
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_kind ON jobs (kind, number);
CREATE INDEX jobs_open ON jobs (number) WHERE open = 1;
CREATE INDEX jobs_ended ON jobs (finished_ms, number) WHERE open = 0;
CREATE INDEX idempotency_keys_by_job ON idempotency_keys (job);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',6);
COMMIT;
PRAGMA user_version = 5;
