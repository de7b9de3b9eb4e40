// Command peers measures other queues beside cutie, each with every operation
// on stable storage, with the same driver, sizes, clients and payloads as
// cutie bench, and compares the figures.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/load"
)

const usage = `usage: peers run [OPTION…] PEER…   measure peers, one after the other
       peers show FILE…           print the runs in JSON files
       peers ratios FILE…         compare the runs of cutie with those of the peers

Each peer is started in a directory of its own on a free loopback port and
stopped at the end. One that is not installed is skipped.

peers:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "peers: %v\n", err)
		os.Exit(1)
	}
}

// command does what the arguments ask.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("no command given\n%s", manual())
	}
	switch verb, args := args[0], args[1:]; verb {
	case "run":
		return runPeers(ctx, args, stdout, stderr)
	case "show":
		report, err := readReports(args)
		if err != nil {
			return err
		}
		return report.WriteTable(stdout)
	case "ratios":
		report, err := readReports(args)
		if err != nil {
			return err
		}
		return writeRatios(stdout, report)
	case bareVerb:
		return serveBare(ctx, args)
	case "help", "-h", "--help":
		_, err := io.WriteString(stdout, manual())
		return err
	default:
		return fmt.Errorf("unknown command %.40q\n%s", verb, manual())
	}
}

func manual() string {
	var b strings.Builder
	b.WriteString(usage)
	for _, p := range peers {
		fmt.Fprintf(&b, "  %-11s %s\n", p.name, p.about)
	}
	flags, _ := runFlags()
	b.WriteString("\noptions of run:\n" + flags.FlagUsages())
	return b.String()
}

// runOptions are the values of the options of run.
type runOptions struct {
	task
	list string // of phases
	form string
}

func runFlags() (*pflag.FlagSet, *runOptions) {
	o := new(runOptions)
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.dir, "dir", os.TempDir(), "`directory` in which the peers keep their files; take one on the disk to be measured")
	flags.IntVarP(&o.clients, "clients", "c", 64, "`number` of clients, a connection or process each")
	flags.Int64VarP(&o.jobs, "jobs", "n", 20000, "`number` of jobs in each phase")
	flags.IntVar(&o.size, "size", 1024, "`octets` of a job")
	flags.StringVar(&o.list, "phase", "submit,consume", "`list` of submit, consume")
	flags.StringVarP(&o.form, "response-form", "t", "table", "`form` of the result: table or json")
	return flags, o
}

func runPeers(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags, o := runFlags()
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.form != "table" && o.form != "json" {
		return fmt.Errorf("form %.40q: not table or json", o.form)
	}
	var err error
	if o.phases, err = load.ParsePhases(o.list); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("no peer named")
	}
	var chosen []peer
	for _, name := range flags.Args() {
		p, err := findPeer(name)
		if err != nil {
			return err
		}
		chosen = append(chosen, p)
	}

	defer load.LeaveRoom()()
	var report load.Report
	for _, p := range chosen {
		if missing := p.missing(ctx); missing != "" {
			fmt.Fprintf(stderr, "peers: nopeer %s: %s\n", p.name, missing)
			continue
		}
		runs, err := p.measure(ctx, o.task)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		for i := range runs {
			runs[i].Server = p.name
		}
		report.Runs = append(report.Runs, runs...)
	}
	print := report.WriteTable
	if o.form == "json" {
		print = report.WriteJSON
	}
	if err := print(stdout); err != nil {
		return err
	}
	for _, run := range report.Runs {
		if run.Errors > 0 {
			return fmt.Errorf("%s: %s: %d errors, such as: %s", run.Server, run.Phase, run.Errors, run.Example())
		}
	}
	return nil
}
