// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import "testing"

func TestConsumerAPIServerIsAHostAndAPort(t *testing.T) {
	for _, test := range []struct{ server, host, port string }{
		{"https://192.0.2.7:6443", "192.0.2.7", "6443"},
		{"https://192.0.2.7", "192.0.2.7", "443"},
		{"https://[2001:db8::7]:6443/", "2001:db8::7", "6443"},
		{"https://rome.example.com:8443", "rome.example.com", "8443"},
		{"http://192.0.2.7:6443", "", ""},
		{"https://192.0.2.7:6443/k8s/clusters/c-1", "", ""},
		{"https://admin:secret@192.0.2.7", "", ""},
		{"https://192.0.2.7?x=y", "", ""},
		{"https://127.0.0.1:6443", "", ""},
		{"https://[::1]:6443", "", ""},
		{"https://[fe80::1%25eth0]:6443", "", ""},
		{"https://169.254.169.254", "", ""},
		{"https://0.0.0.0:6443", "", ""},
		{"https://rome_1:6443", "", ""},
		{"https://rome:0", "", ""},
		{"https://rome:65536", "", ""},
		{"https://:6443", "", ""},
		{"rome:6443", "", ""},
		{"", "", ""},
	} {
		host, port, err := ConsumerAPIServer(test.server)
		if host != test.host || port != test.port || (err == nil) != (test.host != "") {
			t.Errorf("%q: %q, %q, %v", test.server, host, port, err)
		}
	}
}
