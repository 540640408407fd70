#!/bin/bash
# Settings of the desktop and the browser.
. "$RECIPE/scripts/env.sh"

# A sandbox denies nested user namespaces and setuid helpers, so Chromium's own sandbox
# cannot start; the sandbox around it is the wall. /dev/shm is small.
mkdir -p /etc/chromium.d
# Two services of the browser have no switch: the list of signed-in accounts, and components that are asked for on
# demand. Their address is one that Chromium itself refuses to connect to, for its port (`discard`).
cat >/etc/chromium.d/sandyard <<'FLAGS'
export CHROMIUM_FLAGS="$CHROMIUM_FLAGS --no-sandbox --test-type --disable-dev-shm-usage --no-first-run --no-default-browser-check --password-store=basic --disable-background-networking --disable-component-update"
export CHROMIUM_FLAGS="$CHROMIUM_FLAGS --gaia-url=http://off.invalid:9 --component-updater=url-source=http://off.invalid:9/ --disable-features=AutofillServerCommunication"
FLAGS
# The browser asks for what its pages ask for, and nothing else: every other host would be one more refusal of the
# egress gateway.
mkdir -p /etc/chromium/policies/managed
cat >/etc/chromium/policies/managed/sandyard.json <<'POLICY'
{
  "AlternateErrorPagesEnabled": false,
  "AutofillAddressEnabled": false,
  "AutofillCreditCardEnabled": false,
  "BackgroundModeEnabled": false,
  "BrowserNetworkTimeQueriesEnabled": false,
  "BrowserSignin": 0,
  "ChromeVariations": 2,
  "ComponentUpdatesEnabled": false,
  "DefaultBrowserSettingEnabled": false,
  "DnsOverHttpsMode": "off",
  "DomainReliabilityAllowed": false,
  "EnableMediaRouter": false,
  "GenAiDefaultSettings": 2,
  "MetricsReportingEnabled": false,
  "NetworkPredictionOptions": 2,
  "PasswordLeakDetectionEnabled": false,
  "PasswordManagerEnabled": false,
  "PromotionsEnabled": false,
  "SafeBrowsingProtectionLevel": 0,
  "SearchSuggestEnabled": false,
  "SpellCheckServiceEnabled": false,
  "SpellcheckEnabled": false,
  "SyncDisabled": true,
  "TranslateEnabled": false,
  "UrlKeyedAnonymizedDataCollectionEnabled": false
}
POLICY
# Debian's own look at /dev/shm, which the flags above make pointless, fails where it is not mounted.
rm -f /etc/chromium.d/dev-shm

fc-cache --force --system-only
command -v Xvnc openbox xdotool xdot
chromium --version
