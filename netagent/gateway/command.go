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
	// APIServer is the address of the local API server, host:port, to which connections of peers are forwarded;
	// empty disables forwarding.
	APIServer string
	// ControlPort is the TCP port of the node at which the gateway serves the proxy for connections of local controllers
	// to the API servers of peers; 0 disables the proxy.
	ControlPort int
	// CertificateFile and KeyFile are the files with the serving certificate of ControlPort.
	CertificateFile, KeyFile string
	// ProbeInterval is the time between two probes of a peer.
	ProbeInterval time.Duration
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		Options:       agent.NewOptions("127.0.0.1:5875"),
		ProbeInterval: 2 * time.Second,
		APIServer:     apiServer(),
	}
}

// apiServer returns the address of the local API server from the pod's environment; empty outside of a pod.
func apiServer() string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// AddFlags adds the flags of all options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Options.AddFlags(flags)
	flags.StringVar(
		&o.APIServer,
		"api-server",
		o.APIServer,
		"Address of the local API server, host:port, to which connections of peers through their tunnels are forwarded. "+
			"Defaults to the address in the pod's environment. Empty disables forwarding.",
	)
	flags.IntVar(
		&o.ControlPort,
		"control-port",
		o.ControlPort,
		"TCP port on the node at which the gateway serves a proxy for connections of local controllers to the API "+
			"servers of peers. 0 disables the proxy.",
	)
	flags.StringVar(
		&o.CertificateFile,
		"control-cert-file",
		o.CertificateFile,
		"PEM file with the serving certificate of the proxy on --control-port. It is reloaded for each connection.",
	)
	flags.StringVar(
		&o.KeyFile, "control-key-file", o.KeyFile, "PEM file with the private key of the certificate in --control-cert-file.",
	)
	flags.DurationVar(
		&o.ProbeInterval,
		"probe-interval",
		o.ProbeInterval,
		"Time between two probes of a peer through its tunnel.",
	)
}

// Validate returns all errors of the options. If Cleanup is set it returns none, as a cleanup uses no other
// option.
func (o *Options) Validate() []error {
	if o.Cleanup {
		return nil
	}
	errs := o.Options.Validate()
	if o.ControlPort < 0 || o.ControlPort > 65535 {
		errs = append(errs, fmt.Errorf("--control-port %d: must be between 0 and 65535", o.ControlPort))
	}
	if o.ControlPort != 0 && (o.CertificateFile == "" || o.KeyFile == "") {
		errs = append(errs, errors.New("--control-port: requires --control-cert-file and --control-key-file"))
	}
	if _, _, err := net.SplitHostPort(o.APIServer); o.APIServer != "" && err != nil {
		errs = append(errs, fmt.Errorf("--api-server %q: must be host:port", o.APIServer))
	}
	if o.ProbeInterval < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("--probe-interval %s: must be at least 100ms", o.ProbeInterval))
	}
	return errs
}

// NewCommand returns the federation-gateway command, which runs until the context ends.
func NewCommand(ctx context.Context) *cobra.Command {
	options := NewOptions()
	return agent.NewCommand("federation-gateway", "Terminates the tunnels to the gateways of remote clusters", options,
		options.Logs, func() error { return run(ctx, options) })
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
	kube, federation, err := options.Clients("federation-gateway")
	if err != nil {
		return err
	}
	g, err := New(options, kube, federation, outer, inner, legacyregistry.Register)
	if err != nil {
		return err
	}
	return g.Run(ctx)
}
