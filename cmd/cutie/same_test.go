package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// session is what one person types, one command after the other; every verb
// that works on queues is in it, with what goes well and what does not. Jobs are culled
// after the packages that need them are made, wherever that happens.
const session = `
cutie createQueue second --name Second --size 10 -t anvl
cutie createQueue second
cutie submitJob jobs a b c d e f
cutie submitJob Second - <a
cutie submitJob jobs a -t json
cutie submitJob jobs a --digest md5:00000000000000000000000000000000
cutie submitJob jobs bad.checkm -T batch-manifest
cutie getBatchState jobs none
cutie getNextJob jobs
cutie getNextJob jobs --lease 1h -o job
cutie getNextJob nosuch
cutie peekAtJob jobs
cutie peekAtJob jobs j000000000001 -o copy; cat copy
cutie holdJob jobs j000000000003 --reason why
cutie holdJob jobs j000000000001
cutie holdJob jobs --older 1d
cutie releaseJob jobs --held
cutie extendLease jobs j000000000002 --lease @job.lease --for 2h
cutie extendLease jobs j000000000002 --lease wrong
cutie putResult jobs j000000000002 a --lease @job.lease
cutie reportOutcome jobs j000000000002 --lease @job.lease --outcome error
cutie reportOutcome jobs j000000000002 --lease @job.lease --outcome error
cutie getResult jobs j000000000002
cutie getResult jobs j000000000002 a
cutie getResult jobs j000000000002 b
cutie deleteJob jobs j000000000004 j000000000001 j000000000005
cutie abortJob jobs j000000000003
cutie requeueJob jobs --outcome error --end
cutie requeueJob jobs --status deleted -n
cutie requeueJob jobs j000000000001
cutie getServiceState -t turtle
cutie status
cutie getQueueState jobs --status deleted -t xml
cutie ls jobs
cutie ls jobs -q --limit 2
cutie ls nosuch
cutie getJobState jobs j000000000001 j000000000002 j000000000099
cutie setQueue jobs --size 100 --age 0 -S pause -t anvl
cutie setQueue jobs --callback nowhere
cutie getNextJob jobs
cutie publish --now >published
cutie cull jobs -n --size 0
cutie cull jobs --size 0
cutie cull
cutie removeQueue jobs
cutie getNextJob second; cutie publish --now >published; cutie cull second --size 0
cutie removeQueue second
cutie status -q
`

// What differs from run to run.
var varies = []*regexp.Regexp{
	regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`),
	regexp.MustCompile(`127\.0\.0\.1:\d+`),
	regexp.MustCompile(`cutie:[A-Za-z0-9.-]+:[0-9a-f]{16}`),
	regexp.MustCompile(`lease [A-Za-z0-9_-]{22}`),
}

func TestTargetsAnswerTheSame(t *testing.T) {
	t.Parallel()
	answers := map[string][]string{}
	for _, way := range []string{"url", "socket", "directory"} {
		dir := t.TempDir()
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "bad.checkm"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		home := filepath.Join(dir, "home")
		env := append(os.Environ(), "CUTIE_HOME="+home, "CUTIE_URL=")
		if way == "directory" {
			sh(t, dir, "cutie init home; cutie createQueue jobs -H home")
		} else {
			d := serveHome(t, home)
			if way == "url" {
				env = append(env, "CUTIE_HOME=", "CUTIE_URL="+d.url)
			}
		}
		for line := range strings.Lines(strings.TrimSpace(session)) {
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir, cmd.Env = dir, env
			out, _ := cmd.CombinedOutput()
			text := string(out)
			for _, re := range varies {
				text = re.ReplaceAllString(text, "…")
			}
			answers[way] = append(answers[way], fmt.Sprintf("%s%s[%d]", line, text, cmd.ProcessState.ExitCode()))
		}
	}
	for way, all := range answers {
		for i, got := range all {
			if want := answers["directory"][i]; got != want {
				t.Errorf("%s: got %s\n\nwant %s", way, got, want)
			}
		}
	}
}
