package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// rdmVerb exchanges descriptions with a server, and reads their files.
func rdmVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rdm COMMAND",
		Short: "exchange resource descriptions with a server, check and print them",
		Long: `
The server speaks RDM (W3C NOTE-rdm-960724). Each queue of the daemon is a catalog
with descriptions of its jobs. The files are in SOIF (RFC 2655).`,
		Example: `cutie rdm get http://127.0.0.1:8080/ --since 2026-01-31T10:00:00Z -t json
cutie rdm get http://127.0.0.1:8080/ --order=-Size --hits 10
cutie rdm send http://127.0.0.1:8080/ --catalog jobs new.soif
cutie rdm cat new.soif -t json`,
	}
	return c.Group(cmd, optTarget|optOutput, rdmGetVerb(c), rdmSendVerb(c), soifCheckVerb(c), soifCatVerb(c))
}

// soifVerb is the former name of the part of rdm that reads files.
func soifVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{Use: "soif COMMAND", Short: "check and print resource descriptions"}
	return c.Group(cmd, optOutput|optVerbose, soifCheckVerb(c), soifCatVerb(c))
}

func rdmGetVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get URL",
		Short: "print the descriptions in a catalog, or what a server says of itself",
		Long: `
Prints all descriptions, or those that have changed since a date. With --type it prints
something else: rd-request-deleted is what is no longer in the catalog, and server,
schema, taxonomy and status are what the server says of itself. To follow a catalog, ask
for what was deleted first, and apply the answers in this order.

URL is the server; without a path /rdm/incoming is added. The limits of a server are in
its description (--type server), as Max-Objects, Max-Object-Size, Max-Message-Size and
Max-Ordered. ` + fmt.Sprintf("A daemon sorts %d descriptions; for the first of more there is --hits.", rdm.DefaultOrdered),
	}
	r := newRDMCall(c, cmd)
	fs := cmd.Flags()
	fs.StringVar(&r.typ, "type", "rd-request", "`type` of the request: rd-request, rd-request-deleted, server, schema, taxonomy or status")
	fs.StringVar(&r.scope, "scope", "", "scope of the query, a `text` such as all or children ROOT")
	fs.StringVar(&r.since, "since", "", "only changes since a `date`, RFC 3339 or of HTTP")
	fs.StringVar(&r.attributes, "attributes", "", "`list` of the wanted attributes")
	fs.StringVar(&r.order, "order", "", "`list` of attributes to sort by, with a minus sign the greatest first")
	fs.StringVar(&r.hits, "hits", "", "`range` of the wanted results, such as 10 or 11..20")
	return c.Verb(cmd, optTarget|optOutput, func(ctx context.Context) error { return r.with(ctx, r.get) })
}

func rdmSendVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send URL [FILE…|-]",
		Short: "submit the descriptions in files of SOIF to a catalog",
		Long: fmt.Sprintf(`
Each object becomes a job, replaces the description with its URL, or puts a job back;
with --delete it deletes the descriptions with their URLs. The result for each is
printed, and it is an error if one was rejected. URL is the server; without a path
/rdm/incoming is added.

A message has at most %[1]d objects or 16 MiB; after a message refused as a whole, no
more are sent. A daemon takes messages of %[1]d objects, of %[2]d MiB each, and 1 GiB in
all (or serve --max-body, if that is less).`, rdm.DefaultObjects, soif.DefaultLimit>>20),
	}
	r := newRDMCall(c, cmd)
	cmd.Flags().BoolVar(&r.remove, "delete", false, "delete the descriptions that are sent")
	return c.Verb(cmd, optTarget|optOutput, func(ctx context.Context) error { return r.with(ctx, r.send) })
}

// An rdmCall is one exchange with a server.
type rdmCall struct {
	*call
	form, catalog, typ, scope, since, attributes, order, hits string
	remove                                                    bool
}

func newRDMCall(c *call, cmd *cobra.Command) *rdmCall {
	r := &rdmCall{call: c}
	cmd.Flags().StringVarP(&r.form, "form", "t", soifForm, "print objects as `"+objectForms+"`")
	cmd.Flags().StringVar(&r.catalog, "catalog", "", "`name` or Catalog-Service-ID of the catalog (default that of the server)")
	return r
}

// with calls do with a client of the server in the first argument.
func (r *rdmCall) with(ctx context.Context, do func(context.Context, *rdm.Client) error) error {
	url, err := rdm.ServerURL(r.Args[0])
	if err != nil {
		return fault.Hint(fault.Usagef("%v", err), "one looks like http://127.0.0.1:8080/")
	}
	client := &rdm.Client{URL: url, UserAgent: reach.Agent(), HTTP: r.Remote(url).HTTP}
	return fault.About(r.Args[0], do(ctx, client))
}

// query reads the options of get.
func (r *rdmCall) query(client *rdm.Client) (q rdm.Request, err error) {
	q = rdm.Request{Catalog: client.CatalogID(r.catalog), Scope: r.scope, Attributes: r.attributes, Order: r.order, Hits: r.hits}
	name := strings.ToLower(r.typ)
	if !strings.Contains(name, "-") {
		name += "-request"
	}
	if q.Type, err = rdm.ParseType(name); err != nil || !q.Type.IsRequest() {
		return q, fault.Usagef("--type %.40q is none of rd-request, rd-request-deleted, server, schema, taxonomy, status", r.typ)
	}
	if r.since == "" {
		return q, nil
	}
	if r.scope != "" {
		return q, fault.Usagef("--scope and --since exclude each other")
	}
	t, err := time.Parse(time.RFC3339, r.since)
	if err != nil {
		t, err = http.ParseTime(r.since)
	}
	if err != nil {
		return q, fault.Usagef("--since %.40q is no date such as 2026-01-31T10:00:00Z", r.since)
	}
	q.Scope = rdm.Since(t)
	return q, nil
}

// get sends a query and prints the answer.
func (r *rdmCall) get(ctx context.Context, client *rdm.Client) error {
	q, err := r.query(client)
	if err != nil {
		return err
	}
	reply, err := client.Ask(ctx, q)
	if err != nil {
		return restError(err)
	}
	defer reply.Close()
	if reply.Error != "" && !strings.HasPrefix(reply.Error, "0 ") { // from a server without a status for it
		return errors.New(reply.Error)
	}
	if err := printObjects(r.call, r.form, func(print func(*soif.Object) error) error { return printReply(reply, print) }); err != nil {
		return err
	}
	if reply.Error != "" {
		r.Sayf("%s", reply.Error)
	}
	return nil
}

func printReply(reply *rdm.Reply, print func(*soif.Object) error) error {
	for {
		o, err := reply.Read()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = print(&o)
		}
		if err != nil {
			return err
		}
	}
}

// restError turns the error of a server into one with an exit code.
func restError(err error) error {
	if e := (*web.Error)(nil); errors.As(err, &e) {
		return &web.Error{Status: e.Status, Message: e.Message}
	}
	return err
}
