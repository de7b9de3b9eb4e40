package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/objects"
	"cutie/queuefs/objects/s3"
	"cutie/queuefs/stored"
)

// storeOptions say in which object store the home is.
type storeOptions struct {
	*stored.Options // nil: in none
	url, endpoint   string
	takeOver        bool
	every           octets
}

// minTakeover is the shortest silence of an owner for a takeover.
const minTakeover = time.Second

func (o *storeOptions) bind(fs *pflag.FlagSet, node *daemon.NodeOptions) {
	fs.StringVar(&o.url, "store", "", "`URL` of the object store that the home is in, s3://BUCKET/PREFIX; the directory is a cache then")
	fs.StringVar(&o.endpoint, "store-endpoint", "", "`URL` of the service that has the bucket (default that of AWS_ENDPOINT_URL, else Amazon S3)")
	fs.Var(&o.every, "store-image", "journal from one image of the home in the store to the next, at least (default 64M)")
	fs.BoolVar(&o.takeOver, "takeover", false, "take the home in the store from the daemon that owns it")
	fs.StringVar(&node.URL, "node-url", "", "`URL` at which the clients and the other daemons of the store reach this one (default the address listened on)")
	fs.Var(&node.Changes, "standby-changes", "what a standby does with requests to change something: proxy passes them on to the owner, refuse answers 503")
	fs.DurationVar(&node.TakeoverAfter, "takeover-after", 10*time.Second, "silence of the owner before a standby takes over, 1s or more; 0: a standby never does by itself")
}

// checkStore opens the store. Nothing is sent to it yet.
func (o *serveOptions) checkStore() error {
	s := &o.store
	switch {
	case s.url == "" && (s.endpoint != "" || s.takeOver || s.every != 0 || o.Node.URL != ""):
		return fault.Usagef("--store-endpoint, --store-image, --node-url and --takeover belong to --store")
	case o.Node.TakeoverAfter != 0 && o.Node.TakeoverAfter < minTakeover:
		return fault.Usagef("--takeover-after is %v or more, or 0", minTakeover)
	case s.url == "":
		return nil
	case len(o.mirrors) > 0:
		return fault.Usagef("--mirror and --store do not go together: the first copy of a mirror is in no journal")
	}
	bucket, err := s3.Open(s.url, s.endpoint)
	if err != nil {
		return fault.Usagef("--store: %v", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed machine"
	}
	if o.Node.URL != "" {
		if o.Node.URL, err = reach.CleanBase(o.Node.URL); err != nil {
			return fault.Usagef("--node-url: %v", err)
		}
	}
	o.Node.Store = objects.Count(bucket)
	s.Options = &stored.Options{Objects: o.Node.Store, Name: fmt.Sprintf("process %d on %s", os.Getpid(), host), TakeOver: s.takeOver, Standby: true, Early: true, Every: int64(s.every)}
	return nil
}

// nameNode says where this daemon answers.
func (o *serveOptions) nameNode() (err error) {
	if o.store.Options == nil {
		return nil
	}
	if o.Node.URL == "" {
		o.Node.URL, err = o.Listen.URL(o.Listen.On.Addr())
	}
	o.store.URL = o.Node.URL
	return err
}

// goesOn reports whether a daemon opens its home again after this error: another one owns
// it, or has released batches not read in time, or the store answers again.
func goesOn(err error) bool {
	return errors.Is(err, queuefs.ErrFenced) || errors.Is(err, queuefs.ErrBehind) || errors.Is(err, queuefs.ErrBack)
}

// waits reports whether a daemon asks its store again after this error of opening the home.
func waits(err error) bool {
	return errors.Is(err, objects.ErrAway) || objects.Refused(err)
}

// againPause is the pause before it does so.
const againPause = 2 * time.Second

// storeHint adds a hint to an error of a home in a store.
func storeHint(err error) error {
	var owned *queuefs.OwnedError
	var moved *queuefs.MovedError
	switch {
	case errors.As(err, &moved) && moved.Coming:
		return fault.Hint(err, "cutie store push goes on, from that directory")
	case errors.As(err, &moved):
		return fault.Hint(err, "serve it from there, or move it with cutie store push; if that directory is lost, --takeover takes the home as it was when it left the store")
	case errors.Is(err, queuefs.ErrHere):
		return fault.Hint(err, "cutie serve without --store serves it")
	case errors.Is(err, queuefs.ErrThere):
		return fault.Hint(err, "take another prefix, for example s3://BUCKET/PREFIX2")
	case errors.As(err, &owned):
		return fault.Hint(err, "stop that daemon; if it is lost, --takeover takes the home from it, with all it has acknowledged")
	case errors.Is(err, queuefs.ErrFenced):
		return fault.Hint(err, "nothing was acknowledged after that; start this daemon again when the other one has stopped")
	case errors.Is(err, queuefs.ErrUnstored):
		return fault.Hint(err, "cutie store push DIR URL moves it into the store; an empty directory with another one is a cache")
	case stored.Damaged(err):
		return fault.Hint(err, "cutie store check names all that is damaged in the store; start a daemon on the directory of the last owner, which may have it")
	case errors.Is(err, objects.ErrUnconditional):
		return fault.Hint(err, "cutie needs a store with conditional writes, such as Amazon S3, MinIO, Ceph or R2 of today")
	case errors.Is(err, objects.ErrDenied):
		return fault.Hint(err, "the credentials of AWS_ACCESS_KEY_ID, of ~/.aws/credentials or of the machine need the rights to get, put, list and delete below the prefix")
	case errors.Is(err, objects.ErrNoBucket):
		return fault.Hint(err, "make the bucket first; --store and --store-endpoint name it and its service")
	case errors.Is(err, objects.ErrClock):
		return fault.Hint(err, "run a time service, such as chrony or systemd-timesyncd")
	case errors.Is(err, objects.ErrRegion):
		return fault.Hint(err, "AWS_REGION is the region of the bucket, us-east-1 without it")
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fault.Hint(err, "--store-endpoint, or AWS_ENDPOINT_URL, has a name that is in the certificate; SSL_CERT_FILE names a file with the authorities to be trusted")
	case unreached(err):
		return fault.Hint(err, "--store-endpoint, or AWS_ENDPOINT_URL, is the URL of the service with the bucket, as this machine reaches it; without both it is that of Amazon S3")
	}
	return err
}

// unreached reports whether nobody answered as a store does.
func unreached(err error) bool {
	var op *net.OpError
	return errors.Is(err, objects.ErrForeign) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &op) && op.Op == "dial"
}
