package descriptions

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/call"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/publisher/rdm"
	"cutie/publisher/soif"
	"cutie/queuefs/web"
)

// RDM exchanges descriptions with a server.
func RDM(c *call.Call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rdm status|server|schema|taxonomy|get|deleted URL | send URL [FILE…|-] | import FILE|URL|-",
		Short: "exchange resource descriptions with a server",
		Args:  call.Between(2, -1),
		Long: fmt.Sprintf(`
The server speaks RDM (W3C NOTE-rdm-960724). Each queue of the daemon is a catalog
with descriptions of its jobs. URL is the server; without a path /rdm/incoming is
added.

status, server, schema and taxonomy print the server's own descriptions. get prints
the descriptions in a catalog, deleted those of resources no longer in it: all of
them, or those since a date, with --remember since the last time. Run deleted
before get, and apply the answers in this order.

send submits the objects in files of SOIF: each becomes a job, or puts a job back;
with --delete it deletes the jobs they name. It prints the result for each, and
fails if one was rejected. A message has at most %[1]d objects or 64 MiB; after a
message refused as a whole, no more are sent.

import reads the answer of a Harvest Gatherer, or plain SOIF, and submits each
description to --queue as a job with a payload of application/x-soif. Deletions
and unchanged descriptions are only counted. The server of URL gets the token in
CUTIE_TOKEN, as a daemon does.

A daemon takes messages of %[1]d objects, of %[2]d MiB each, and 1 GiB in all (or
serve --max-body, if that is less), and sorts %[3]d descriptions; for the first of
more there is --hits. The limits of a server are in its description, as Max-Objects,
Max-Object-Size, Max-Message-Size and Max-Ordered.`, rdm.DefaultObjects, soif.DefaultLimit>>20, rdm.DefaultOrdered),
		Example: `cutie rdm get http://127.0.0.1:8080/ --remember state -t json
cutie rdm get http://127.0.0.1:8080/ --order=-Size --hits 10 -t table`,
	}
	r := &rdmCall{Call: c, flags: cmd.Flags()}
	fs := r.flags
	fs.StringVarP(&r.form, "form", "t", soifForm, "print objects as `"+objectForms+"`")
	fs.StringVar(&r.catalog, "catalog", "", "`name` or Catalog-Service-ID of the catalog (default that of the server)")
	fs.StringVar(&r.scope, "scope", "", "scope of the query, a `text` such as all or children ROOT")
	fs.StringVar(&r.since, "since", "", "only changes since a `date`, RFC 3339 or of HTTP")
	fs.StringVar(&r.attributes, "attributes", "", "`list` of the wanted attributes")
	fs.StringVar(&r.order, "order", "", "`list` of attributes to sort by, with a minus sign the greatest first")
	fs.StringVar(&r.hits, "hits", "", "`range` of the wanted results, such as 10 or 11..20")
	fs.StringVar(&r.remember, "remember", "", "`file` with the date to ask from next time")
	fs.BoolVar(&r.remove, "delete", false, "delete the jobs that are sent")
	fs.StringVar(&r.queue, "queue", "", "`queue` to import to")
	return c.Verb(cmd, call.Target|call.Output, r.run)
}

// An rdmCall is one use of the verb.
type rdmCall struct {
	*call.Call
	form, catalog, scope, since, attributes, order, hits string
	remember, queue                                      string
	remove                                               bool
	flags                                                *pflag.FlagSet
}

// rdmOptions are the options of each word beside the common ones.
var rdmOptions = map[string]string{
	"status":   "form",
	"server":   "form catalog",
	"schema":   "form catalog scope attributes hits",
	"taxonomy": "form scope attributes hits",
	"get":      "form catalog scope since attributes order hits remember",
	"deleted":  "form catalog scope since attributes order hits remember",
	"send":     "form catalog delete",
	"import":   "queue home url",
}

var rdmTypes = map[string]rdm.Type{"status": rdm.StatusRequest, "server": rdm.ServerRequest, "schema": rdm.SchemaRequest,
	"taxonomy": rdm.TaxonomyRequest, "get": rdm.RDRequest, "deleted": rdm.RDRequestDeleted}

func (r *rdmCall) run(ctx context.Context) error {
	word := strings.ToLower(r.Args[0])
	takes, ok := rdmOptions[word]
	if !ok {
		return fault.Hint(fault.Usagef("%.40q is none of status, server, schema, taxonomy, get, deleted, send, import", r.Args[0]), "cutie help rdm")
	}
	if word != "send" && len(r.Args) > 2 {
		return fault.Usagef("too many arguments: %.60q", r.Args[2])
	}
	var foreign string
	r.flags.Visit(func(f *pflag.Flag) {
		if !strings.Contains(" "+takes+" output verbose debug ", " "+f.Name+" ") {
			foreign = f.Name
		}
	})
	if foreign != "" {
		return fault.Usagef("%s takes no --%s", word, foreign)
	}
	if word == "import" {
		return r.importAll(ctx)
	}
	client, err := r.client(r.Args[1])
	if err != nil {
		return err
	}
	if word == "send" {
		return fault.About(r.Args[1], r.send(ctx, client))
	}
	return r.ask(ctx, client, rdmTypes[word])
}

// client speaks to a server.
func (r *rdmCall) client(server string) (*rdm.Client, error) {
	url, err := rdm.ServerURL(server)
	if err != nil {
		return nil, fault.Hint(fault.Usagef("%v", err), "one looks like http://127.0.0.1:8080/")
	}
	return &rdm.Client{URL: url, UserAgent: reach.Agent(), HTTP: r.Remote(url).HTTP}, nil
}

// restError turns the error of a server into one with an exit code.
func restError(err error) error {
	if e := (*web.Error)(nil); errors.As(err, &e) {
		return &web.Error{Status: e.Status, Message: e.Message}
	}
	return err
}
