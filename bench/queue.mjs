// The peers of bench/queue.py: jobs are scheduled, claimed and finished one by one by pg-boss or graphile-worker. Prints one line of JSON.
// Arguments: the peer, the address of the database, jobs, workers, connections.

import { performance } from "node:perf_hooks";

const [peer, connectionString, ...numbers] = process.argv.slice(2);
const [jobs, workers, connections] = numbers.map(Number);

/** Runs `work(i)` for every number below `count`, `workers` at a time. */
async function each(count, work) {
    let next = 0;
    const worker = async () => {
        while (next < count) await work(next++);
    };
    await Promise.all(Array.from({ length: workers }, worker));
}

function report(scheduled, finished, pickUps) {
    pickUps.sort((a, b) => a - b);
    const perSecond = (ms) => (jobs * 1000) / ms;
    console.log(
        JSON.stringify({
            peer,
            jobs,
            workers,
            schedule_per_s: perSecond(scheduled),
            claim_and_finish_per_s: perSecond(finished),
            whole_per_s: perSecond(scheduled + finished),
            pick_up_median_ms: pickUps[Math.floor(pickUps.length / 2)],
        }),
    );
}

async function timed(work) {
    const begun = performance.now();
    await work();
    return performance.now() - begun;
}

async function pgBoss() {
    const module = await import("pg-boss");
    const PgBoss = module.PgBoss ?? module.default;
    const boss = new PgBoss({ connectionString, max: connections, supervise: false, schedule: false });
    await boss.start();
    await boss.createQueue("q");
    const finishOne = async () => {
        const [job] = await boss.fetch("q");
        if (job) await boss.complete("q", job.id);
        return job;
    };
    await each(200, () => boss.send("q", { code: "echo hello" }));
    await each(200, finishOne);
    const scheduled = await timed(() => each(jobs, () => boss.send("q", { code: "echo hello" })));
    let left = jobs;
    const finished = await timed(() =>
        Promise.all(
            Array.from({ length: workers }, async () => {
                while (left > 0) if (await finishOne()) left--;
            }),
        ),
    );
    const pickUps = [];
    for (let i = 0; i < 200; i++) {
        const begun = performance.now();
        await boss.send("q", { code: "echo hello" });
        const [job] = await boss.fetch("q");
        pickUps.push(performance.now() - begun);
        await boss.complete("q", job.id);
    }
    report(scheduled, finished, pickUps);
    await boss.stop({ graceful: false });
}

async function graphileWorker() {
    const { Logger, run, makeWorkerUtils } = await import("graphile-worker");
    const { default: pg } = await import("pg");
    const pool = new pg.Pool({ connectionString, max: connections });
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    const utils = await makeWorkerUtils({ pgPool: pool });
    await utils.migrate();
    let done = 0;
    let ended = () => {};
    const taskList = {
        one: async () => {
            done++;
            ended();
        },
    };
    const until = (count) =>
        new Promise((resolve) => {
            ended = () => done >= count && resolve();
            ended();
        });
    const scheduled = await timed(() => each(jobs, () => utils.addJob("one", { code: "echo hello" })));
    // A line for each job would be measured too.
    const logger = new Logger(() => () => undefined);
    let runner;
    const finished = await timed(async () => {
        runner = await run({ pgPool: pool, concurrency: workers, pollInterval: 1000, taskList, noHandleSignals: true, logger });
        await until(jobs);
        // A job is finished when its row is gone.
        for (;;) {
            const { rows } = await pool.query("SELECT COUNT(*)::int AS left FROM graphile_worker.jobs");
            if (rows[0].left === 0) break;
        }
    });
    const pickUps = [];
    for (let i = 0; i < 200; i++) {
        const begun = performance.now();
        await utils.addJob("one", { code: "echo hello" });
        await until(jobs + i + 1);
        pickUps.push(performance.now() - begun);
    }
    report(scheduled, finished, pickUps);
    await runner.stop();
    await pool.end();
}

await { "pg-boss": pgBoss, "graphile-worker": graphileWorker }[peer]();
process.exit(0);
