// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

var (
	start = metav1.NewTime(time.Date(2026, 11, 21, 1, 0, 0, 0, time.UTC))
	later = metav1.NewTime(start.Add(time.Minute))
)

const nodeIP = "10.1.0.9"

func localPod(status corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "uid", Generation: 3},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "app"}, {Name: "side"}},
		},
		Status: status,
	}
}

func scheduled() corev1.PodStatus {
	return corev1.PodStatus{
		Phase:    corev1.PodPending,
		QOSClass: corev1.PodQOSBestEffort,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: start},
		},
	}
}

func remotePod(uid types.UID, status corev1.PodStatus) *RemotePod {
	return &RemotePod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "web", UID: uid}, Status: status}
}

func runningStatus(restarts int32) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &start, HostIP: "172.16.0.4", PodIP: "10.200.0.7",
		PodIPs: []corev1.PodIP{{IP: "10.200.0.7"}}, QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: later},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: later},
			{Type: "example.com/foreign", Status: corev1.ConditionTrue},
		},
		ContainerStatuses: []corev1.ContainerStatus{
			{
				Name:         "app",
				ContainerID:  "containerd://a",
				Ready:        true,
				RestartCount: restarts,
				State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}},
			},
			{Name: "injected", ContainerID: "containerd://b"},
		},
	}
}

func TestPodStatusOfARunningPod(t *testing.T) {
	local := localPod(scheduled())
	got := PodStatus(local, &v1alpha1.ShadowPod{}, remotePod("remote", runningStatus(2)), nodeIP, later)
	want := corev1.PodStatus{
		ObservedGeneration: 3,
		Phase:              corev1.PodRunning, QOSClass: corev1.PodQOSBestEffort, StartTime: &start,
		HostIP: nodeIP, HostIPs: []corev1.HostIP{{IP: nodeIP}},
		PodIP: "10.200.0.7", PodIPs: []corev1.PodIP{{IP: "10.200.0.7"}},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: start},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: later, ObservedGeneration: 3},
			{
				Type:               ConditionOffloaded,
				Status:             corev1.ConditionTrue,
				LastTransitionTime: later,
				Reason:             "RunsOnProvider",
				Message:            `{"remotePodUID":"remote"}`,
			},
		},
		ContainerStatuses: []corev1.ContainerStatus{
			{
				Name:         "app",
				ContainerID:  "containerd://a",
				Ready:        true,
				RestartCount: 2,
				State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	again := PodStatus(
		localPod(got),
		&v1alpha1.ShadowPod{},
		remotePod("remote", runningStatus(2)),
		nodeIP,
		metav1.NewTime(later.Add(time.Hour)),
	)
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("an equal report changed the status:\n%s", diff)
	}
}

func TestResizeConditionsLastWhileAPodIsResized(t *testing.T) {
	reported := func(kind corev1.PodConditionType, why string) corev1.PodCondition {
		return corev1.PodCondition{
			Type:               kind,
			Status:             corev1.ConditionTrue,
			Reason:             why,
			Message:            "not\x1b now",
			LastTransitionTime: start,
		}
	}
	here := func(kind corev1.PodConditionType, why, message string, since metav1.Time) corev1.PodCondition {
		return corev1.PodCondition{
			Type:               kind,
			Status:             corev1.ConditionTrue,
			Reason:             why,
			Message:            message,
			LastTransitionTime: since,
			ObservedGeneration: 3,
		}
	}
	refusing := &v1alpha1.ShadowPod{Status: v1alpha1.ShadowPodStatus{Conditions: []metav1.Condition{
		{
			Type:    v1alpha1.ConditionPodResized,
			Status:  metav1.ConditionFalse,
			Reason:  v1alpha1.ReasonProviderRefused,
			Message: "too much",
		},
	}}}
	local := localPod(scheduled())
	local.Spec.Containers[0].Resources = sized("2")
	for _, step := range []struct {
		name   string
		shadow *v1alpha1.ShadowPod
		from   []corev1.PodCondition
		want   []corev1.PodCondition
	}{
		{"no resize", nil, nil, nil},
		{"the kubelet waits", nil, []corev1.PodCondition{reported(corev1.PodResizePending, corev1.PodReasonDeferred)},
			[]corev1.PodCondition{here(corev1.PodResizePending, corev1.PodReasonDeferred, "not now", start)}},
		{"resize starts", nil, []corev1.PodCondition{reported(corev1.PodResizeInProgress, "")},
			[]corev1.PodCondition{here(corev1.PodResizeInProgress, "", "not now", start)}},
		{"resize has ended", nil, nil, nil},
		{"next resize is refused", refusing, nil,
			[]corev1.PodCondition{here(corev1.PodResizePending, corev1.PodReasonInfeasible, "too much", later)}},
		{"refused again", refusing, nil,
			[]corev1.PodCondition{here(corev1.PodResizePending, corev1.PodReasonInfeasible, "too much", later)}},
		{"resize is no longer requested", nil, nil, nil},
	} {
		remote := runningStatus(0)
		remote.Conditions = append(remote.Conditions, step.from...)
		remote.ContainerStatuses[0].AllocatedResources = sized("2").Requests
		remote.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Requests: sized("1").Requests}
		shadow := step.shadow
		if shadow == nil {
			shadow = &v1alpha1.ShadowPod{}
		}
		for _, now := range []metav1.Time{later, metav1.NewTime(later.Add(time.Hour))} {
			before := local.Status
			local.Status = PodStatus(local, shadow, remotePod("remote", remote), nodeIP, now)
			if now != later && !SameStatus(&before, &local.Status) {
				t.Errorf("%s: an equal report changed the status:\n%s", step.name, cmp.Diff(before, local.Status))
			}
		}
		var got []corev1.PodCondition
		for _, c := range local.Status.Conditions {
			if c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress {
				got = append(got, c)
			}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: conditions (-want +got):\n%s", step.name, diff)
		}
		app := local.Status.ContainerStatuses[0]
		if app.AllocatedResources.Cpu().String() != "2" || app.Resources == nil ||
			app.Resources.Requests.Cpu().String() != "1" {
			t.Errorf("%s: the container has %+v", step.name, app)
		}
	}
}

func TestPodStatusBeforeAKubeletReports(t *testing.T) {
	waiting := corev1.PodStatus{
		Phase:      corev1.PodPending,
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
	}
	unschedulable := corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{
			Type:    corev1.PodScheduled,
			Status:  corev1.ConditionFalse,
			Reason:  "Unschedulable",
			Message: "0/2 nodes\x1b[31m are available",
		},
	}}
	refused := &v1alpha1.ShadowPod{Status: v1alpha1.ShadowPodStatus{Conditions: []metav1.Condition{
		{
			Type:    v1alpha1.ConditionPodCreated,
			Status:  metav1.ConditionFalse,
			Reason:  "QuotaExceeded",
			Message: strings.Repeat("x", 5000),
		},
	}}}
	tests := []struct {
		name   string
		shadow *v1alpha1.ShadowPod
		remote *RemotePod
		local  func(*corev1.PodStatus)
		want   func(*corev1.PodStatus)
	}{
		{name: "no pod yet", shadow: &v1alpha1.ShadowPod{}, want: func(*corev1.PodStatus) {}},
		{
			name:   "scheduled on the provider",
			shadow: &v1alpha1.ShadowPod{},
			remote: remotePod("remote", waiting),
			want:   func(*corev1.PodStatus) {},
		},
		{
			name: "unschedulable on the provider", shadow: &v1alpha1.ShadowPod{},
			remote: remotePod("remote", unschedulable),
			want: func(s *corev1.PodStatus) {
				for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
					s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse,
						Reason: "Unschedulable", Message: "0/2 nodes[31m are available", LastTransitionTime: later})
				}
			},
		},
		{
			name: "refused by the provider", shadow: refused,
			want: func(s *corev1.PodStatus) { s.Reason, s.Message = "QuotaExceeded", strings.Repeat("x", 1021)+"…" },
		},
		{
			name:  "refused by quota",
			local: func(s *corev1.PodStatus) { s.Reason, s.Message = "QuotaExceeded", "0 left" },
			want:  func(s *corev1.PodStatus) { s.Reason, s.Message = "QuotaExceeded", "0 left" },
		},
		{
			name:   "the reason no longer applies",
			local:  func(s *corev1.PodStatus) { s.Reason, s.Message = "QuotaExceeded", "0 left" },
			shadow: &v1alpha1.ShadowPod{},
			want:   func(*corev1.PodStatus) {},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want, local := scheduled(), scheduled()
			test.want(&want)
			if test.local != nil {
				test.local(&local)
			}
			got := PodStatus(localPod(local), test.shadow, test.remote, nodeIP, later)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecreatedPodIsNotReady(t *testing.T) {
	ran := PodStatus(localPod(scheduled()), nil, remotePod("first", runningStatus(2)), nodeIP, start)
	gone := PodStatus(localPod(ran), &v1alpha1.ShadowPod{}, nil, nodeIP, later)
	if gone.Phase != corev1.PodRunning || condition(&gone, corev1.PodReady).Status != corev1.ConditionFalse ||
		gone.ContainerStatuses[0].Ready {
		t.Errorf("status while the pod is created again: %+v", gone)
	}
	back := PodStatus(localPod(gone), &v1alpha1.ShadowPod{}, remotePod("second", runningStatus(0)), nodeIP, later)
	if condition(&back, corev1.PodReady).Status != corev1.ConditionTrue || back.ContainerStatuses[0].RestartCount != 3 {
		t.Errorf("status of the second remote pod: %+v, want ready, restarted 3 times", back)
	}
	after := PodStatus(localPod(back), &v1alpha1.ShadowPod{}, remotePod("second", runningStatus(1)), nodeIP, later)
	if got := after.ContainerStatuses[0].RestartCount; got != 4 {
		t.Errorf("%d restarts after the second remote pod restarted, want 4", got)
	}
}

func TestTerminalComesFromTheShadowPod(t *testing.T) {
	ran := PodStatus(localPod(scheduled()), nil, remotePod("remote", runningStatus(0)), nodeIP, start)
	ended := runningStatus(0)
	ended.Phase = corev1.PodSucceeded
	ended.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodCompleted"},
	}
	ended.ContainerStatuses[0].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"},
	}

	job := localPod(ran)
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	undecided := PodStatus(job, &v1alpha1.ShadowPod{}, remotePod("remote", ended), nodeIP, later)
	if diff := cmp.Diff(ran, undecided); diff != "" {
		t.Errorf("the remote pod alone ended the local pod:\n%s", diff)
	}
	evicted := PodStatus(localPod(ran), &v1alpha1.ShadowPod{}, remotePod("remote", ended), nodeIP, later)
	if c := condition(
		&evicted,
		corev1.PodReady,
	); evicted.Phase != corev1.PodRunning || c.Status != corev1.ConditionFalse ||
		c.Reason != ReasonRecreating {
		t.Errorf("status of a pod that ended and will be created again: %+v", evicted)
	}
	shadow := &v1alpha1.ShadowPod{Status: v1alpha1.ShadowPodStatus{Phase: corev1.PodSucceeded, Pod: &ended}}
	done := PodStatus(localPod(ran), shadow, nil, nodeIP, later)
	if done.Phase != corev1.PodSucceeded || done.ContainerStatuses[0].State.Terminated == nil ||
		condition(&done, corev1.PodReady).Reason != "PodCompleted" {
		t.Errorf("status at the end: %+v", done)
	}
	reverted := PodStatus(localPod(done), &v1alpha1.ShadowPod{}, remotePod("another", runningStatus(0)), nodeIP, later)
	if diff := cmp.Diff(done, reverted); diff != "" {
		t.Errorf("a finished pod was changed:\n%s", diff)
	}
	refusal := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "RefusedByPolicy", Message: "why"}
	shadow = &v1alpha1.ShadowPod{Status: v1alpha1.ShadowPodStatus{Phase: corev1.PodFailed, Pod: &refusal}}
	refused := PodStatus(localPod(ran), shadow, nil, nodeIP, later)
	if refused.Phase != corev1.PodFailed || refused.Reason != refusal.Reason || refused.Message != refusal.Message ||
		condition(&refused, corev1.PodReady).Status != corev1.ConditionFalse {
		t.Errorf("status of a pod that was evicted and is refused: %+v", refused)
	}
	bare := PodStatus(
		localPod(ran),
		&v1alpha1.ShadowPod{Status: v1alpha1.ShadowPodStatus{Phase: corev1.PodFailed}},
		nil,
		nodeIP,
		later,
	)
	if bare.Phase != corev1.PodFailed || condition(&bare, corev1.PodReady).Status != corev1.ConditionFalse {
		t.Errorf("status of a pod that ended without a final status: %+v", bare)
	}
}

func TestDisruptionIsSetOnAPodThatEnded(t *testing.T) {
	ran := PodStatus(localPod(scheduled()), nil, remotePod("remote", runningStatus(0)), nodeIP, start)
	target := corev1.PodCondition{
		Type:          corev1.DisruptionTarget,
		Status:        corev1.ConditionTrue,
		Reason:        "EvictionByEvictionAPI",
		Message:       "Eviction API: evicting\x1b[31m",
		LastProbeTime: later,
	}
	reported := func(phase corev1.PodPhase, conditions ...corev1.PodCondition) *corev1.PodStatus {
		status := runningStatus(0)
		status.Phase, status.Conditions = phase, append(status.Conditions, conditions...)
		return &status
	}
	over := target
	over.Status = corev1.ConditionFalse
	ended := v1alpha1.ShadowPodStatus{Phase: corev1.PodFailed}
	for _, test := range []struct {
		name     string
		shadow   v1alpha1.ShadowPodStatus
		last     *corev1.PodStatus
		remote   *corev1.PodStatus
		reported bool
	}{
		{"in the last status of the shadow pod", ended, reported(corev1.PodFailed, target), nil, true},
		{"in the status of the remote pod", ended, nil, reported(corev1.PodFailed, target), true},
		{"no disruption", ended, reported(corev1.PodFailed), nil, false},
		{"disruption that has ended", ended, reported(corev1.PodFailed, over), nil, false},
		{"running pod", v1alpha1.ShadowPodStatus{}, nil, reported(corev1.PodRunning, target), false},
		{"pod that is created again", v1alpha1.ShadowPodStatus{}, nil, reported(corev1.PodFailed, target), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.shadow.Pod = test.last
			var remote *RemotePod
			if test.remote != nil {
				remote = remotePod("remote", *test.remote)
			}
			status := PodStatus(localPod(ran), &v1alpha1.ShadowPod{Status: test.shadow}, remote, nodeIP, later)
			got := condition(&status, corev1.DisruptionTarget)
			if !test.reported {
				if got != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			want := &corev1.PodCondition{
				Type:               corev1.DisruptionTarget,
				Status:             corev1.ConditionTrue,
				Reason:             "EvictionByEvictionAPI",
				Message:            text(target.Message),
				ObservedGeneration: 3,
				LastTransitionTime: later,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadinessGatesOfTheConsumerCloseReadiness(t *testing.T) {
	local := localPod(scheduled())
	local.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/ready"}}
	closed := PodStatus(local, nil, remotePod("remote", runningStatus(0)), nodeIP, later)
	if c := condition(
		&closed,
		corev1.PodReady,
	); c.Status != corev1.ConditionFalse ||
		c.Reason != "ReadinessGatesNotReady" {
		t.Errorf("Ready is %+v while the gate is closed", c)
	}
	local.Status.Conditions = append(
		local.Status.Conditions,
		corev1.PodCondition{Type: "example.com/ready", Status: corev1.ConditionTrue},
	)
	open := PodStatus(local, nil, remotePod("remote", runningStatus(0)), nodeIP, later)
	if c := condition(&open, corev1.PodReady); c.Status != corev1.ConditionTrue {
		t.Errorf("Ready is %+v while the gate is open", c)
	}
}

func TestPodOfANamespaceThatIsNotOffloaded(t *testing.T) {
	waiting := NotOffloaded(localPod(scheduled()), "not offloaded", false, later)
	if waiting.Phase != corev1.PodPending || waiting.Reason != v1alpha1.ReasonOffloadingBackOff {
		t.Errorf("a pod that never ran: %s %s", waiting.Phase, waiting.Reason)
	}
	ran := PodStatus(localPod(scheduled()), nil, remotePod("remote", runningStatus(0)), nodeIP, start)
	called := NotOffloaded(localPod(ran), "not offloaded", true, later)
	if called.Phase != corev1.PodRunning || called.Reason != v1alpha1.ReasonOffloadingAborted ||
		condition(&called, corev1.PodReady).Status != corev1.ConditionFalse {
		t.Errorf("evictable pod: %+v", called)
	}
	aborted := NotOffloaded(localPod(ran), "not offloaded", false, later)
	if aborted.Phase != corev1.PodFailed || aborted.Reason != v1alpha1.ReasonOffloadingAborted ||
		condition(&aborted, corev1.PodReady).Status != corev1.ConditionFalse {
		t.Errorf("a pod that ran: %+v", aborted)
	}
}

func TestAddressesOfAPeerAreSanitised(t *testing.T) {
	tests := map[string][]string{
		"one of each family": {"10.0.0.1", "fd00::1"},
		"loopback":           {"127.0.0.1", "::1"},
		"link-local":         {"169.254.169.254", "fe80::1"},
		"zoned":              {"fd00::1%eth0"},
		"multicast":          {"224.0.0.1"},
		"unspecified":        {"0.0.0.0"},
		"mapped":             {"::ffff:127.0.0.1"},
		"two of one family":  {"10.0.0.1", "10.0.0.2"},
		"not addresses":      {"localhost", ""},
		"one valid address":  {"127.0.0.1", "10.0.0.3"},
	}
	want := map[string][]string{
		"one of each family": {"10.0.0.1", "fd00::1"},
		"two of one family":  {"10.0.0.1"},
		"one valid address":  {"10.0.0.3"},
	}
	for name, ips := range tests {
		status := &corev1.PodStatus{}
		for _, ip := range ips {
			status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: ip})
		}
		var got []string
		for _, ip := range addresses(status) {
			got = append(got, ip.IP)
		}
		if diff := cmp.Diff(want[name], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestStatusOfEphemeralContainersIsTranslated(t *testing.T) {
	named := func(name string, state corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: state}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}
	local := localPod(scheduled())
	local.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		debugger("runs"), debugger("ended"), debugger("refused"),
	}
	RefuseContainers(&local.Status, local.Spec.EphemeralContainers[2:], "no")
	refused := local.Status.EphemeralContainerStatuses[0]
	local.Status.EphemeralContainerStatuses = append(local.Status.EphemeralContainerStatuses, named("ended", ended))

	reported := runningStatus(0)
	reported.EphemeralContainerStatuses = []corev1.ContainerStatus{
		named("runs", running),
		named("ended", running),
		named("the provider's own", running),
	}
	reported.EphemeralContainerStatuses[0].ImageID = "image\x1b[2J"
	got := PodStatus(local, &v1alpha1.ShadowPod{}, remotePod("remote", reported), nodeIP, later)
	want := []corev1.ContainerStatus{named("runs", running), named("ended", ended), refused}
	want[0].ImageID = "image[2J"
	if diff := cmp.Diff(want, got.EphemeralContainerStatuses); diff != "" {
		t.Errorf("ephemeral containers (-want +got):\n%s", diff)
	}
}
