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
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// rdmVerb exchanges descriptions with a server.
func rdmVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rdm get URL | send URL [FILE…|-]",
		Short: "exchange resource descriptions with a server",
		Args:  between(2, -1),
		Long: fmt.Sprintf(`
The server speaks RDM (W3C NOTE-rdm-960724). Each queue of the daemon is a catalog
with descriptions of its jobs. URL is the server; without a path /rdm/incoming is
added.

get prints the descriptions in a catalog: all of them, or those that have changed
since a date. With --type it prints something else: rd-request-deleted is what is no
longer in the catalog, and server, schema, taxonomy and status are what the server
says of itself. To follow a catalog, ask for what was deleted first, and apply the
answers in this order.

send submits the objects in files of SOIF. Each becomes a job, replaces the
description with its URL, or puts a job back; with --delete it deletes the
descriptions with their URLs. send prints the result for each, and fails if one was
rejected. A message has at most %[1]d objects or 16 MiB; after a message refused as
a whole, no more are sent.

A daemon takes messages of %[1]d objects, of %[2]d MiB each, and 1 GiB in all (or
serve --max-body, if that is less), and sorts %[3]d descriptions; for the first of
more there is --hits. The limits of a server are in its description (--type server),
as Max-Objects, Max-Object-Size, Max-Message-Size and Max-Ordered.`, rdm.DefaultObjects, soif.DefaultLimit>>20, rdm.DefaultOrdered),
		Example: `cutie rdm get http://127.0.0.1:8080/ --since 2026-01-31T10:00:00Z -t json
cutie rdm get http://127.0.0.1:8080/ --order=-Size --hits 10
cutie rdm send http://127.0.0.1:8080/ --catalog jobs new.soif`,
	}
	r := &rdmCall{call: c, flags: cmd.Flags()}
	fs := r.flags
	fs.StringVarP(&r.form, "form", "t", soifForm, "print objects as `"+objectForms+"`")
	fs.StringVar(&r.catalog, "catalog", "", "`name` or Catalog-Service-ID of the catalog (default that of the server)")
	fs.StringVar(&r.typ, "type", "rd-request", "`type` of the request: rd-request, rd-request-deleted, server, schema, taxonomy or status")
	fs.StringVar(&r.scope, "scope", "", "scope of the query, a `text` such as all or children ROOT")
	fs.StringVar(&r.since, "since", "", "only changes since a `date`, RFC 3339 or of HTTP")
	fs.StringVar(&r.attributes, "attributes", "", "`list` of the wanted attributes")
	fs.StringVar(&r.order, "order", "", "`list` of attributes to sort by, with a minus sign the greatest first")
	fs.StringVar(&r.hits, "hits", "", "`range` of the wanted results, such as 10 or 11..20")
	fs.BoolVar(&r.remove, "delete", false, "delete the descriptions that are sent")
	return c.Verb(cmd, optTarget|optOutput, r.run)
}

// An rdmCall is one use of the verb.
type rdmCall struct {
	*call
	form, catalog, typ, scope, since, attributes, order, hits string
	remove                                                    bool
	flags                                                     *pflag.FlagSet
}

func (r *rdmCall) run(ctx context.Context) error {
	takes := "form catalog type scope since attributes order hits"
	do := r.get
	switch word := strings.ToLower(r.Args[0]); {
	case word == "send":
		takes, do = "form catalog delete", r.send
	case word != "get":
		return fault.Hint(fault.Usagef("%.40q is neither get nor send", r.Args[0]), "cutie help rdm")
	case len(r.Args) > 2:
		return fault.Usagef("too many arguments: %.60q", r.Args[2])
	}
	var foreign string
	r.flags.Visit(func(f *pflag.Flag) {
		if !strings.Contains(" "+takes+" output verbose debug ", " "+f.Name+" ") {
			foreign = f.Name
		}
	})
	if foreign != "" {
		return fault.Usagef("%s takes no --%s", r.Args[0], foreign)
	}
	url, err := rdm.ServerURL(r.Args[1])
	if err != nil {
		return fault.Hint(fault.Usagef("%v", err), "one looks like http://127.0.0.1:8080/")
	}
	client := &rdm.Client{URL: url, UserAgent: reach.Agent(), HTTP: r.Remote(url).HTTP}
	if err := do(ctx, client); err != nil {
		return fault.About(r.Args[1], err)
	}
	return nil
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
