// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"testing"
)

func TestValidateReturnsAllErrors(t *testing.T) {
	valid := func() *Options {
		o := NewOptions()
		o.NodeName, o.NodeIP, o.VirtualNode, o.Namespace = "liqo-milan", "10.1.0.9", "milan", "liqo-peer-milan"
		o.ForeignCluster, o.ConsumerName, o.ClusterID, o.RemoteClusterID = "milan", "rome", "rome-id", "milan-id"
		return o
	}
	tests := []struct {
		name   string
		change func(*Options)
		want   []string
	}{
		{name: "nothing", change: func(*Options) {}},
		{
			name:   "names",
			change: func(o *Options) { o.NodeName, o.Namespace = "Liqo Milan", "" },
			want:   []string{"--node-name", "--namespace"},
		},
		{
			name:   "ids",
			change: func(o *Options) { o.ClusterID, o.RemoteClusterID = "", "a b" },
			want:   []string{"--cluster-id", "--remote-cluster-id"},
		},
		{name: "an address", change: func(o *Options) { o.NodeIP = "milan" }, want: []string{"--node-ip"}},
		{name: "a port", change: func(o *Options) { o.Port = 70000 }, want: []string{"--port"}},
		{
			name:   "half a certificate",
			change: func(o *Options) { o.CertFile = "tls.crt" },
			want:   []string{"--tls-private-key-file"},
		},
		{
			name:   "a loopback address",
			change: func(o *Options) { o.ConsumerAPIServer = "https://127.0.0.1:6443" },
			want:   []string{"--consumer-api-server"},
		},
		{
			name:   "no namespace",
			change: func(o *Options) { o.InstallationNamespace = "Liqo/" },
			want:   []string{"--installation-namespace"},
		},
		{name: "a tunnel to a server without an address", change: func(o *Options) {
			o.ConsumerAPIServer, o.ConsumerAPIServerThroughTunnels, o.InstallationNamespace = "https://rome.example.org", true,
				"liqo"
		}, want: []string{"--consumer-api-server-through-tunnels"}},
		{
			name:   "no namespace for the address of the consumer's API server",
			change: func(o *Options) { o.ConsumerAPIServer, o.ConsumerAPIServerThroughTunnels = "https://10.96.0.1", true },
			want:   []string{"--consumer-api-server-through-tunnels"},
		},
		{
			name:   "a refused address",
			change: func(o *Options) { o.RefusedEndpointCIDRs = []string{"10.96.0.0/12", "10.96.0.1", "10.1.2.3/16"} },
			want:   []string{"--policy-refused-endpoint-cidrs[1]", "--policy-refused-endpoint-cidrs[2]"},
		},
		{name: "no identity", change: func(o *Options) { o.IdentityDir = "" }, want: []string{"--identity-dir"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			options := valid()
			test.change(options)
			errs := options.Validate()
			if len(errs) != len(test.want) {
				t.Fatalf("%d errors, want %d: %v", len(errs), len(test.want), errs)
			}
			for i, flag := range test.want {
				if !strings.Contains(fmt.Sprint(errs[i]), flag) {
					t.Errorf("error %q does not name %s", errs[i], flag)
				}
			}
		})
	}
}
