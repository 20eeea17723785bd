// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics/legacyregistry"

	"liqo.io/federation/netagent/agent"
	"liqo.io/federation/netagent/kernel"
)

// Options are the flags of a gateway.
type Options struct {
	*agent.Options
	// PrivateKeyFile holds WireGuard's private key in base64.
	PrivateKeyFile string
	// APIServer is where this cluster's API server is, host:port, for the peers
	// that reach it through their tunnels.
	APIServer string
	// ControlPort is the TCP port of the node where this cluster's controllers
	// have themselves connected to peers; 0: nobody can.
	ControlPort int
	// CertificateFile and KeyFile hold what is shown to them.
	CertificateFile, KeyFile string
	// ProbeInterval is the time between two probes of a peer.
	ProbeInterval time.Duration
}

// NewOptions are the defaults.
func NewOptions() *Options {
	return &Options{Options: agent.NewOptions("127.0.0.1:5875"), PrivateKeyFile: "/etc/federation/wireguard/privateKey", ProbeInterval: 2 * time.Second,
		APIServer: apiServer()}
}

// apiServer is where pods find the API server of their cluster; empty elsewhere.
func apiServer() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// AddFlags adds every flag.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Options.AddFlags(flags)
	flags.StringVar(&o.PrivateKeyFile, "private-key-file", o.PrivateKeyFile, "File with WireGuard's private key in base64. It is read again when it changes.")
	flags.StringVar(&o.APIServer, "api-server", o.APIServer, "Where this cluster's API server is, host:port, for peers that reach it through their tunnels. Default is that of the pod's environment; empty serves none.")
	flags.IntVar(&o.ControlPort, "control-port", o.ControlPort, "TCP port of the node where this cluster's controllers have themselves connected to the API servers of peers. 0 connects nobody.")
	flags.StringVar(&o.CertificateFile, "control-cert-file", o.CertificateFile, "File with the certificate that is shown at --control-port, PEM encoded. It is read again for each connection.")
	flags.StringVar(&o.KeyFile, "control-key-file", o.KeyFile, "File with the key of that certificate, PEM encoded.")
	flags.DurationVar(&o.ProbeInterval, "probe-interval", o.ProbeInterval, "Time between two probes of a peer through its tunnel.")
}

// Validate tells everything that is wrong with the options.
func (o *Options) Validate() []error {
	if o.Cleanup {
		return nil
	}
	errs := o.Options.Validate()
	if o.ControlPort < 0 || o.ControlPort > 65535 {
		errs = append(errs, fmt.Errorf("--control-port %d is neither 0 nor a port", o.ControlPort))
	}
	if o.ControlPort != 0 && (o.CertificateFile == "" || o.KeyFile == "") {
		errs = append(errs, errors.New("--control-port needs --control-cert-file and --control-key-file"))
	}
	if _, _, err := net.SplitHostPort(o.APIServer); o.APIServer != "" && err != nil {
		errs = append(errs, fmt.Errorf("--api-server %q is not host:port", o.APIServer))
	}
	if o.ProbeInterval < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("--probe-interval %s is less than 100ms", o.ProbeInterval))
	}
	if o.PrivateKeyFile == "" {
		errs = append(errs, errors.New("--private-key-file is missing"))
	}
	return errs
}

// NewCommand is the gateway command. It runs until the context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	options := NewOptions()
	return agent.NewCommand("gateway", "Is the end of the tunnels to the pods of other clusters", options, options.Logs,
		func() error { return run(ctx, options) })
}

func run(ctx context.Context, options *Options) (err error) {
	outer, inner, err := agent.Namespaces(options.NamespacePath)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, inner.Close(), outer.Close()) }()
	if options.Cleanup {
		_, err := agent.CleanGateway(outer, inner)
		return errors.Join(err, kernel.RemoveNamespace(options.NamespacePath))
	}
	kube, federation, err := options.Clients("liqo-gateway")
	if err != nil {
		return err
	}
	g, err := New(options, kube, federation, outer, inner, legacyregistry.Register)
	if err != nil {
		return err
	}
	return g.Run(ctx)
}
