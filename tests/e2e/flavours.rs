//! The image that a job names.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::yard::Yard;

/// What the flavour `dev` promises, each by its own word. The last line opens a page in both Playwrights.
const TOOLS: &str = r#"set -e
for tool in cmake ninja clang go rustc cargo javac mvn pnpm pytest ruff mypy vim nano tmux rsync ssh lsof strace htop psql \
    redis-cli ffmpeg gh git-lfs zstd shellcheck pandoc pdftotext convert fd; do command -v $tool >/dev/null || echo no $tool; done
python3 -c 'import duckdb, fastapi, flask, lxml, polars, pyarrow, pydantic, rich, scipy, sklearn, sqlalchemy, tqdm'
cat > Main.java <<< 'class Main { public static void main(String[] a) { System.out.println("java"); } }'; javac Main.java; java -Xmx64m Main
cat > main.go <<< 'package main; func main() { println("go") }'; go run main.go 2>&1
cat > main.rs <<< 'fn main() { println!("rust") }'; rustc main.rs; ./main
cat > main.c <<< 'int puts(const char *); int main(void) { puts("c"); }'; clang main.c; ./a.out
python3 -c 'from playwright.sync_api import sync_playwright as p
with p() as it:
    page = it.chromium.launch().new_page(); page.set_content("<title>page</title>"); print(page.title())'
NODE_PATH=/usr/local/lib/node_modules node -e 'require("playwright").chromium.launch().then(async (it) => {
    const page = await it.newPage(); await page.setContent("<title>node</title>"); console.log(await page.title()); await it.close(); })'"#;

async fn refusal(yard: &Yard, body: &Value) -> (StatusCode, Value) {
    let answer = yard.post("/schedule", body).await;
    (answer.status(), answer.json::<Value>().await.unwrap()["error"].clone())
}

#[tokio::test]
async fn a_flavour_that_does_not_fit_is_refused_with_a_way_out() {
    let yard = Yard::start().await;
    let body = json!({"kind": "shell", "code": "true", "flavour": "large"});
    let (status, error) = refusal(&yard, &body).await;
    assert_eq!((status, &error["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("unsuitable_flavour")));
    assert!(error["hint"].as_str().unwrap().contains("base, full, dev"), "{error}");
    let body = json!({"kind": "python", "code": "1", "flavour": "base"});
    assert_eq!(refusal(&yard, &body).await.1["code"], "unsuitable_flavour");
    assert_eq!(yard.get_json("/jobs").await["jobs"], json!([]));
}

#[tokio::test]
async fn a_job_runs_in_the_image_it_names() {
    let yard = Yard::start().await;
    let job = yard
        .run(&json!({"kind": "shell", "code": "command -v jupyter || echo base", "flavour": "base"}))
        .await;
    assert_eq!(job["stdout"], "base\n", "{job}");
    let limits = json!({"memory_mib": 3072, "cpus": 2});
    let body = json!({"kind": "shell", "code": TOOLS, "flavour": "dev", "limits": limits});
    let drivers = yard.get_json("/drivers").await;
    let images = drivers["images"].as_array().unwrap();
    if !images.iter().any(|image| image["flavour"] == "dev" && image["ready"] == true) {
        let (status, error) = refusal(&yard, &body).await;
        assert_eq!((status, &error["code"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("image_not_built")));
        assert!(error["hint"].as_str().unwrap().contains("image build --flavour dev"), "{error}");
        return eprintln!("skipped: the tools need the dev image (sandyard image build --flavour dev)");
    }
    let job = yard.run(&body).await;
    assert_eq!(job["stdout"], "java\ngo\nrust\nc\npage\nnode\n", "{job}");
}
