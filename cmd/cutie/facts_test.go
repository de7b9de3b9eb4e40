package main_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Whatever is printed with -t json, or served as JSON, is plain objects that hold to
// the schemas of their types, as the daemon serves them.
func TestFactsInJSONHoldToTheirSchemas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, users := filepath.Join(dir, "home"), filepath.Join(dir, "users.txt")
	d := serveHome(t, home)
	seen := map[string]int{}
	var facts bytes.Buffer // for the validator
	check := func(what, text string) {
		t.Helper()
		for _, object := range objects(t, what, text) {
			var of string
			if json.Unmarshal(object.fields["@type"], &of); of == "" {
				t.Errorf("%s: an object without a type: %s", what, object.text)
				continue
			}
			seen[of]++
			for name := range object.fields {
				if strings.Contains(name, ":") {
					t.Errorf("%s: %s has a prefix", what, name)
				}
			}
			resp, schema := send(t, http.DefaultClient, "GET", d.url+"schema/"+of+".json", "")
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("schema of %s: %s", of, resp.Status)
			}
			err := json.NewEncoder(&facts).Encode(map[string]any{"what": what, "schema": json.RawMessage(schema), "object": object.text})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"put", "jobs", file, file, "-q"}, {"work", "jobs", "-n", "1", "--", "wc"},
		{"user", "add", "ann", "--no-password", "--rights", "read,submit:jobs", "--users", users},
	} {
		at := []string{"--url", d.url}
		if args[0] == "user" {
			at = nil
		}
		if out, err := cutie(t, append(args[:len(args):len(args)], at...)...); err != nil && args[0] != "work" {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	uws := d.url + "uws/jobs/async"
	job, err := cutie(t, "uws", "create", uws, "a=b")
	if err != nil {
		t.Fatal(err)
	}
	job = strings.TrimSpace(job)
	for _, args := range [][]string{
		{"version"}, {"help", "put"},
		{"user", "ls", "--users", users}, {"token", "add", "ann", "--users", users}, {"token", "ls", "--users", users},
		{"uws", "list", uws}, {"uws", "abort", job}, {"uws", "result", job}, {"uws", "show", job}, {"uws", "create", uws, "a=b"},
		{"ls", "-u", d.url}, {"ls", "jobs", "-u", d.url}, {"ls", "jobs", "--detail", "-u", d.url}, {"status", "-u", d.url},
		{"show", "jobs", "j000000000001", "-u", d.url}, {"delete", "jobs", "j000000000002", "-u", d.url},
		{"results", "jobs", "j000000000001", "-u", d.url}, {"watch", "jobs", "--from", "1", "-n", "3", "-u", d.url},
		{"export", filepath.Join(dir, "copy"), "-u", d.url},
		{"cull", "jobs", "--size", "0", "--age", "0", "-u", d.url},
		{"publish", "--status", "-u", d.url},
		{"sync", d.url, filepath.Join(dir, "mirror")}, {"sync", "-n", filepath.Join(dir, "mirror")},
		{"audit", filepath.Join(dir, "mirror")}, {"audit", "--source", d.url},
		{"backup", filepath.Join(dir, "backup"), "--home", home}, {"restore", filepath.Join(dir, "backup"), "--home", filepath.Join(dir, "restored")},
		{"get", "jobs", "--lease", "1m", "-o", filepath.Join(dir, "payload"), "-u", d.url},
	} {
		out, err := cutie(t, append(args, "-t", "json")...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		check(strings.Join(args, " "), out)
	}
	for _, path := range []string{"state", "state/jobs", "state/jobs/nosuch", "help", "nosuch", "batch/jobs/b1", "hub", ".well-known/resourcesync/about.json", ".well-known/resourcesync/jobs/replica/about.json"} {
		_, text := send(t, http.DefaultClient, "GET", d.url+path, "", "Accept", "application/json")
		check(path, text)
	}
	// Errors of commands.
	cmd := exec.Command("cutie", "show", "jobs", "j000000000009", "--url", d.url, "-t", "json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("got %v", err)
	}
	check("an error", stderr.String())
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	d = serveHome(t, filepath.Join(dir, "other")) // for its schemas
	out, err := cutie(t, "check", home, "-t", "json")
	if err != nil {
		t.Error(err)
	}
	check("check", out)
	valid(t, &facts)
	for _, of := range []string{"version", "helpState", "user", "token", "uwsJob", "queueSummary", "queueState", "jobState", "cutieServiceState",
		"event", "export", "culledJob", "exceptionState", "error", "checkReport", "takenJob", "publishingState", "hubState", "about",
		"syncReport", "auditReport", "sourceReport", "backup", "restored"} {
		if seen[of] == 0 {
			t.Errorf("there was no %s among %v", of, seen)
		}
	}
}

// An object is one of JSON, as it was printed.
type object struct {
	text   json.RawMessage
	fields map[string]json.RawMessage
}

// objects are those in a text: one alone, an array, or one after the other.
func objects(t *testing.T, what, text string) (all []object) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatalf("%s: %v in %s", what, err, text)
		}
		list := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &list); err != nil {
				t.Fatalf("%s: %v in %s", what, err, raw)
			}
		}
		for _, one := range list {
			o := object{text: one}
			if err := json.Unmarshal(one, &o.fields); err != nil || o.fields == nil {
				t.Fatalf("%s: %s is no object", what, one)
			}
			all = append(all, o)
		}
	}
	return all
}

// valid holds facts to their schemas, in a process of its own: the validator makes ready
// when a program starts, and the tests start this one thousands of times.
func valid(t *testing.T, facts io.Reader) {
	t.Helper()
	cmd := exec.Command("go", "run", "../../testdata/schemas")
	cmd.Stdin = facts
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
