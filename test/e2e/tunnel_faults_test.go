// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/harness"
)

const (
	// mended is the timeout for repairs by the agents of a node. Agents notice flushed chains only
	// in their periodic pass every 30 seconds.
	mended = time.Minute
	// takeover is the maximal interruption when the node of the active gateway fails, or when the
	// key changes. bench-tunnel measures the interruption on an idle machine.
	takeover = 30 * time.Second
)

// site is rome with the tunnel to milan, and with pods on each node of both clusters that send
// requests through it.
type site struct {
	fabric
	pods map[*harness.Cluster][]caller
}

// fault describes a fault, and how it is reverted if the product does not repair it.
type fault struct {
	name   string
	within time.Duration
	do     func(t *testing.T, s site)
	// moves is true if another gateway may be active after the fault.
	moves bool
}

// recoversFromFaults causes the faults one after the other. After each fault, pods must reach each
// other at the same addresses, and nodes must have the same objects as before, each only once.
func (f fabric) recoversFromFaults(t *testing.T) {
	s := site{fabric: f, pods: map[*harness.Cluster][]caller{rome: onEachNode(t, rome), milan: onEachNode(t, milan)}}
	faults := []fault{
		{name: "TheOverlayIsDeleted", within: mended, do: by(site.worker, "ip link del liqo.vxlan")},
		{name: "RoutesAreFlushed", within: mended, do: by(site.worker, "ip route flush table 5872")},
		{name: "TheRuleIsDeleted", within: mended, do: by(site.worker, "ip rule del priority 480")},
		{name: "ChainsAreFlushed", within: mended, do: by(site.worker, "iptables -w -t nat -F LIQO-POSTROUTING", "iptables -w -t filter -F LIQO-FORWARD")},
		{name: "TheGatewaysPairIsDeleted", within: mended, do: by(site.gateway, "ip link del liqo.host")},
		{name: "TheRouteAgentIsKilled", within: mended, do: routeAgentIsKilled},
		{name: "TheRouteAgentsPodIsDeleted", within: mended, do: routeAgentsPodIsDeleted},
		{name: "OneDirectionIsCut", within: soon, do: oneDirectionIsCut},
	}
	if len(s.pods[rome]) > 1 {
		faults = append(faults, fault{name: "TheGatewaysNodeIsCutOff", within: soon, do: gatewaysNodeIsCutOff, moves: true})
	}
	faults = append(faults, fault{name: "TheKeyIsRotated", within: soon, do: keyIsRotated})
	s.heals(t, soon, nil)
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Cleanup(func() { collect(t) })
			before := map[string][]string{}
			for _, node := range realNodes(t, rome) {
				before[node.Name] = must(holdings(t.Context(), node.Name))(t)
			}
			if fault.moves {
				before = nil
			}
			fault.do(t, s)
			s.heals(t, fault.within, before)
		})
	}
}

// by returns a function that causes a fault by commands on a node of rome.
func by(where func(site, *testing.T) string, commands ...string) func(*testing.T, site) {
	return func(t *testing.T, s site) {
		node := where(s, t)
		for _, command := range commands {
			if _, err := playground.Exec(t.Context(), node, strings.Fields(command)...); err != nil {
				t.Fatalf("%s on %s: %v", command, node, err)
			}
		}
	}
}

// gateway returns the node of rome's active gateway.
func (s site) gateway(t *testing.T) string {
	t.Helper()
	return must(activeGateway(t.Context(), rome))(t)
}

// worker returns a node of rome that does not have the active gateway. If rome has only one node,
// it returns that node.
func (s site) worker(t *testing.T) string {
	t.Helper()
	active, nodes := s.gateway(t), realNodes(t, rome)
	at := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name != active })
	return nodes[max(at, 0)].Name
}

// heals waits until every pod receives an answer from a pod of the other cluster, with the expected
// source address, and until rome's nodes have the same objects as before. If before is nil, it
// checks instead that no object exists twice.
func (s site) heals(t *testing.T, within time.Duration, before map[string][]string) {
	t.Helper()
	for _, c := range []*harness.Cluster{rome, milan} {
		other := otherThan(c)
		for i, from := range s.pods[c] {
			to := s.pods[other][i%len(s.pods[other])]
			url, want := "http://"+s.seenFrom(t, c, to.pod.Status.PodIP)+":8080/client",
				s.seenFrom(t, other, from.pod.Status.PodIP)
			eventually(t, within, fmt.Sprintf("%s to reach %s", from, to), func(ctx context.Context) (bool, string, error) {
				result := c.Kubectl(ctx, "exec", "-n", from.pod.Namespace, from.pod.Name, "--", tester, "get", url)
				return strings.TrimSpace(result.Stdout) == want,
					fmt.Sprintf("%q, %v, want %q", result.Stdout, result.Err, want), nil
			})
		}
	}
	for _, c := range []*harness.Cluster{rome, milan} {
		tunnelIs(t, c, v1alpha1.TunnelConnected)
	}
	for _, node := range realNodes(t, rome) {
		eventually(t, within, "node "+node.Name+" to have the same objects as before, each once",
			func(ctx context.Context) (bool, string, error) {
				now, err := holdings(ctx, node.Name)
				if err != nil {
					return false, "", err
				}
				saw := strings.Join(now, "\n") + "\nand before\n" + strings.Join(before[node.Name], "\n")
				if before != nil {
					return slices.Equal(now, before[node.Name]), saw, nil
				}
				return len(slices.Compact(slices.Clone(now))) == len(now), saw, nil
			})
	}
}

// holdings returns the objects of the product in the network of a node, sorted, one line each.
// Lines omit values that differ between otherwise equal objects, such as the index of a link.
func holdings(ctx context.Context, node string) ([]string, error) {
	var all []string
	for _, command := range []string{"ip -o link show", "ip rule show", "ip -6 rule show",
		"ip route show table all proto 58", "iptables-save", "ip6tables-save"} {
		output, err := playground.Exec(ctx, node, strings.Fields(command)...)
		if err != nil {
			return nil, fmt.Errorf("%s on %s: %w", command, node, err)
		}
		table := ""
		for line := range strings.Lines(output) {
			words := strings.Fields(line)
			switch {
			case strings.HasPrefix(line, "*"):
				table = strings.TrimSpace(line) + " "
				continue
			case strings.Contains(command, "link") && componentNames.MatchString(line):
				name, _, _ := strings.Cut(words[1], "@")
				words = []string{strings.TrimSuffix(name, ":")}
			case strings.Contains(command, "rule") && (words[0] == "480:" || words[0] == "481:"):
			case strings.Contains(command, "proto"):
			case strings.Contains(command, "tables") && componentNames.MatchString(line):
			default:
				continue
			}
			all = append(all, command+": "+table+strings.Join(words, " "))
		}
	}
	slices.Sort(all)
	return all, nil
}

// tunnelIs waits until the gateway of a cluster reports this phase of its tunnel.
func tunnelIs(t *testing.T, c *harness.Cluster, phase v1alpha1.TunnelPhase) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("the tunnel of %s to be %s", c.Name, phase),
		func(ctx context.Context) (bool, string, error) {
			te, err := c.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(ctx, otherThan(c).Name,
				metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			return te.Status.Phase == phase, show(te.Status), nil
		})
}

// routeAgentIsKilled kills the route agent of a node.
func routeAgentIsKilled(t *testing.T, s site) {
	s.whileMilanSends(t, func(agent *corev1.Pod) { killOnce(t, rome, agent, "federation-route") })
}

// routeAgentsPodIsDeleted deletes the pod of a node's route agent, and waits for its replacement.
// The link of the overlay must not be recreated.
func routeAgentsPodIsDeleted(t *testing.T, s site) {
	s.whileMilanSends(t, func(agent *corev1.Pod) {
		overlay := func() string {
			return must(playground.Exec(t.Context(), agent.Spec.NodeName, "ip", "-o", "link", "show", "liqo.vxlan"))(t)
		}
		before := overlay()
		if err := rome.Kube.CoreV1().Pods(agent.Namespace).Delete(t.Context(), agent.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		podsReady(t, rome, agent.Namespace, "app.kubernetes.io/name=federation-route", len(realNodes(t, rome)))
		if after := overlay(); after != before {
			t.Errorf("%s has the overlay\n%s\nand had\n%s", agent.Spec.NodeName, after, before)
		}
	})
}

// whileMilanSends runs do while a process on a node downloads from milan through the tunnel. do
// disturbs the route agent of that node. The download must complete.
func (s site) whileMilanSends(t *testing.T, do func(agent *corev1.Pod)) {
	t.Helper()
	const bytes = "40000000"
	node := s.worker(t)
	pods := must(rome.Kube.CoreV1().Pods(harness.Namespace).List(t.Context(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=federation-route", FieldSelector: "spec.nodeName=" + node,
	}))(t).Items
	if len(pods) != 1 {
		t.Fatalf("%d route agents are on %s", len(pods), node)
	}
	seen := s.seenFrom(t, rome, s.pods[milan][0].pod.Status.PodIP)
	type transfer struct {
		got string
		err error
	}
	done := make(chan transfer, 1)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	go func() {
		got, err := playground.Exec(ctx, node, "curl", "--silent", "--show-error", "--limit-rate", "2M",
			"--output", "/dev/null",
			"--write-out", "%{size_download}", "http://"+seen+":8080/zeros/"+bytes)
		done <- transfer{got, err}
	}()
	eventually(t, soon, node+" to be connected to "+seen, func(ctx context.Context) (bool, string, error) {
		got, err := playground.Exec(ctx, node, "ss", "-Htn", "state", "established", "dst", seen)
		return strings.Contains(got, seen), got, err
	})
	do(&pods[0])
	if flow := <-done; flow.err != nil || strings.TrimSpace(flow.got) != bytes {
		t.Errorf("%q of %s bytes arrived: %v", flow.got, bytes, flow.err)
	}
}

// longestGap matches the last line that the tester's command beat prints.
var longestGap = regexp.MustCompile(`longest gap (\S+)\.\n`)

// keyIsRotated deletes the Secret with rome's private key while a pod sends packets to milan.
// Rome's gateway must create a new key, and milan must use the new public key.
func keyIsRotated(t *testing.T, s site) {
	from, to := s.pods[rome][0].pod, s.pods[milan][0].pod
	cmd := rome.KubectlCommand(t.Context(), "exec", "-i", "-n", from.Namespace, from.Name, "--", tester, "beat",
		net.JoinHostPort(s.seenFrom(t, rome, to.Status.PodIP), "8080"))
	input := must(cmd.StdinPipe())(t)
	beating := start(t, cmd)
	beating.shows(t, "beating")
	secrets := rome.Kube.CoreV1().Secrets(harness.Namespace)
	older := string(must(secrets.Get(t.Context(), v1alpha1.WireGuardSecret,
		metav1.GetOptions{}))(t).Data[v1alpha1.WireGuardPublicKey])
	kubectl(t, rome, "delete", "secret", v1alpha1.WireGuardSecret, "-n", harness.Namespace)
	eventually(t, soon, "milan to use rome's new key", func(ctx context.Context) (bool, string, error) {
		secret, err := secrets.Get(ctx, v1alpha1.WireGuardSecret, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		own, err := rome.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(ctx, milan.Name,
			metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		endpoint, err := milan.Federation.FederationV1alpha1().TunnelEndpoints(harness.Namespace).Get(ctx, rome.Name,
			metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		published, err := rome.Kube.CoreV1().ConfigMaps(harness.Namespace).Get(ctx, v1alpha1.WireGuardConfigMap,
			metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		newer, current := string(secret.Data[v1alpha1.WireGuardPublicKey]), published.Data[v1alpha1.WireGuardPublicKey]
		saw := fmt.Sprintf("the Secret has %s, the ConfigMap %s, rome's gateway %s, milan has %s; before it was %s", newer,
			current, own.Status.PublicKey, endpoint.Spec.PublicKey, older)
		return newer != older && current == newer && own.Status.PublicKey == newer && endpoint.Spec.PublicKey == newer, saw,
			nil
	})
	must(0, input.Close())(t)
	beating.shows(t, ".\n")
	t.Log(strings.TrimSpace(strings.TrimPrefix(beating.String(), "beating")))
	if gap := must(time.ParseDuration(longestGap.FindStringSubmatch(beating.String())[1]))(t); gap > takeover {
		t.Errorf("no reply for %s", gap)
	}
}

// oneDirectionIsCut drops the packets from rome to milan, and not those from milan to rome.
func oneDirectionIsCut(t *testing.T, s site) {
	address := must(netip.ParseAddr(nodeAddress(realNodes(t, milan)[0])))(t)
	defer filtered(t, s.gateway(t),
		"chain out { type filter hook output priority 0 ; ip daddr "+netip.PrefixFrom(address,
			24).Masked().String()+" meta l4proto udp drop ; }")()
	for _, c := range []*harness.Cluster{rome, milan} {
		tunnelIs(t, c, v1alpha1.TunnelConnecting)
	}
}

// gatewaysNodeIsCutOff disconnects the node of the active gateway. Another gateway must become
// active. If the active gateway is on the node of rome's API server, it is replaced before, because
// gateways could not acquire the Lease without that node.
func gatewaysNodeIsCutOff(t *testing.T, s site) {
	controlPlane := rome.Name + "-control-plane"
	if s.gateway(t) == controlPlane {
		endsActiveGateway(t, rome)
	}
	podsReady(t, rome, harness.Namespace, "app.kubernetes.io/name="+v1alpha1.GatewayName, 2)
	lost := s.gateway(t)
	url := "http://" + s.seenFrom(t, rome, s.pods[milan][0].pod.Status.PodIP) + ":8080/"
	reached := func(ctx context.Context) (bool, string, error) {
		got, err := playground.Exec(ctx, controlPlane, "curl", "--silent", "--max-time", "0.5", url)
		return err == nil && strings.HasPrefix(got, "hello from "), fmt.Sprintf("%q, %v", got, err), nil
	}
	eventually(t, soon, controlPlane+" to reach milan", reached)
	comesBack := sync.OnceFunc(filtered(t, lost,
		"chain in { type filter hook prerouting priority -300 ; iifname eth0 drop ; }",
		"chain out { type filter hook postrouting priority 300 ; oifname eth0 drop ; }"))
	defer comesBack()
	died := time.Now()
	eventually(t, takeover, controlPlane+" to reach milan without "+lost, reached)
	t.Logf("%s after %s was cut off, %s reached milan", time.Since(died).Round(10*time.Millisecond), lost, controlPlane)
	if now := s.gateway(t); now == lost {
		t.Errorf("the gateway on %s is active although it is disconnected", lost)
	}
	comesBack()
	gatewaysStay(t, rome)
}

// gatewaysStay checks that the active gateway stays active while it renews its Lease, also when
// another gateway is started.
func gatewaysStay(t *testing.T, c *harness.Cluster) {
	t.Helper()
	leases := c.Kube.CoordinationV1().Leases(harness.Namespace)
	before := must(leases.Get(t.Context(), v1alpha1.GatewayName, metav1.GetOptions{}))(t)
	renewals, last := 0, before.Spec.RenewTime
	eventually(t, soon, "the active gateway to have renewed its Lease three times",
		func(ctx context.Context) (bool, string, error) {
			now, err := leases.Get(ctx, v1alpha1.GatewayName, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			if diff := cmp.Diff([]any{before.Spec.HolderIdentity, before.Spec.LeaseTransitions},
				[]any{now.Spec.HolderIdentity, now.Spec.LeaseTransitions}); diff != "" {
				t.Fatalf("another gateway became the active one (-before +after):\n%s", diff)
			}
			if !now.Spec.RenewTime.Equal(last) {
				renewals, last = renewals+1, now.Spec.RenewTime
			}
			return renewals == 3, fmt.Sprintf("%d times", renewals), nil
		})
}

// filtered adds nftables chains to a node, and returns a function that deletes them.
func filtered(t *testing.T, node string, chains ...string) func() {
	t.Helper()
	const table = "table inet fault"
	remove := func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if _, err := playground.Exec(ctx, node, "nft", "delete "+table); err != nil {
			t.Errorf("reconnecting node %s: %v", node, err)
		}
	}
	if _, err := playground.Exec(t.Context(), node, "nft", table+" {\n"+strings.Join(chains, "\n")+"\n}"); err != nil {
		t.Fatalf("partitioning %s: %v", node, err)
	}
	return remove
}
