package main

import (
	"net/url"

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/daemon"
	"cutie/sitemap"
)

// pushOptions are what the options of the daemon say about push.
type pushOptions struct{ daemon.PushOptions }

func (o *pushOptions) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.NoHub, "no-hub", false, "take no subscribers; those there are wait for a hub of ours")
	fs.StringSliceVar(&o.Hubs, "hub", nil, "`URL` of a WebSub hub that is told of changes too; may be repeated")
	fs.BoolVar(&o.Payload, "hub-payload", false, "send the hubs of --hub the notifications instead of telling them to fetch")
	fs.StringVar(&o.Change, "change-capability", string(sitemap.ChangeNotification), "`name` of Change Notifications in Capability Lists")
	fs.StringVar(&o.Framework, "framework-capability", string(sitemap.FrameworkNotification), "`name` of Framework Notifications")
}

// check is done before anything is opened.
func (o *pushOptions) check() error {
	for _, hub := range o.Hubs {
		if u, err := url.Parse(hub); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Fragment != "" {
			return usagef("--hub %.80q is not an absolute http or https URL without user and fragment", hub)
		}
	}
	if o.Payload && len(o.Hubs) == 0 {
		return usagef("--hub-payload says how to tell the hubs of --hub, and there is none")
	}
	return nil
}
