package dashboard

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"

	"cutie/queuefs/state"
)

// Script is the script of live pages. Its name changes with its text.
//
//go:embed live.js
var Script []byte

var (
	scriptSum = sha256.Sum256(Script)
	// ScriptName is the last segment of the URL of the script.
	ScriptName = "live." + hex.EncodeToString(scriptSum[:8]) + ".js"
	scriptHash = "sha256-" + base64.StdEncoding.EncodeToString(scriptSum[:])
)

// ScriptDir is the first segment of the URL of the script.
const ScriptDir = "dashboard"

// Policy is the Content-Security-Policy of the pages with a script: this one alone,
// streams from and images of their own origin. A browser that does not know hashes of
// scripts at URLs shows the same pages at rest.
var Policy = state.PagePolicy + "; script-src '" + scriptHash + "'; connect-src 'self'; img-src 'self'"
