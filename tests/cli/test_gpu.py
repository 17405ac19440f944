#!/usr/bin/env python3
"""Tests of the command-line program on a GPU: python3 tests/cli/test_gpu.py build/infer [WORD...]

The same harness as test_cli.py. What needs an OpenCL device is skipped by name without one (pocl-opencl-icd is one on any
machine). Made models run on the device and are compared with the forward pass in Python; with DEEP=1, of every architecture.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import make_model
import test_cli as cli
from test_cli import check, infer

STORY = 'models/stories260K.F32.gguf'
# The made models that run without DEEP=1: `build/check gpu_arch` has all architectures, these have what few of them have.
MADE = ('llama-half', 'llama-long-head', 'llama-yarn-betas', 'llama-sinks', 'llama-experts-groups', 'gpt-oss', 'bloom', 'gemma2', 'cohere2')


def opencl():
    """The first usable OpenCL device; the test is skipped when there is none."""
    for d in infer('devices', '--json').json()['devices']:
        if d['api'] == 'opencl' and d['usable']:
            return d
    raise cli.Skipped('no OpenCL device')


def story(*options, **env):
    return infer('run', cli.data(STORY), '-p', 'Once upon a time', '-n', '40', '--temp', '0', *options, **env)


def test_devices():
    device = opencl()
    check(device['device'] >= 1 and device['total'] > 0 and not device['why_not'], 'device: %s' % device)
    text = infer('devices').out.decode()
    check(device['name'] in text, text)


def test_no_devices():
    """A loader without drivers, as on a machine that has none: information, until OpenCL is asked for."""
    nothing = os.path.join(cli.TEMP, 'none') + os.sep
    os.makedirs(nothing, exist_ok=True)
    env = {'OCL_ICD_VENDORS': nothing, 'OPENCL_VENDOR_PATH': nothing, 'OCL_ICD_FILENAMES': ''}
    rows = infer('devices', '--json', **env).json()['devices']
    row = [d for d in rows if d['api'] == 'opencl']
    if any(d['usable'] for d in row):
        raise cli.Skipped('this loader does not listen to OCL_ICD_VENDORS')
    check(len(row) == 1 and row[0]['why_not'], 'devices: %s' % rows)
    check('not available: ' + row[0]['why_not'] in infer('devices', **env).out.decode(), 'devices as text')
    done = story('--backend', 'opencl', status=1, **env)
    check(row[0]['why_not'] in done.err, done.err)
    check(story(**env).out == story('--backend', 'cpu').out, 'auto')


def test_demanded():
    """A backend that was asked for and cannot run is an error that names it."""
    rows = infer('devices', '--json').json()['devices']
    for backend in ('cuda', 'hip', 'metal'):
        if any(d['api'] == backend and d['usable'] for d in rows):
            continue
        err = story('--backend', backend, status=1).err
        why = [d['why_not'] for d in rows if d['api'] == backend]
        check('backend %s ' % backend in err and all(w in err for w in why), err)


def test_run():
    device = opencl()
    want = story('--backend', 'cpu').out
    for options in ([], ['--gpu-layers', 'none'], ['--gpu-layers', '0'], ['--gpu-layers', '2'], ['--gpu-layers', '99'], ['--device', str(device['device'])],
                    ['--kv', 'f32']):
        check(story('--backend', 'opencl', *options).out == want, 'opencl %s gives another story' % options)
    check(story('--device', str(device['device'])).out == want, '--device alone')
    infer('run', cli.data(STORY), '-p', 'x', '--backend', 'opencl', '--device', '0', status=1)
    infer('run', cli.data(STORY), '-p', 'x', '--backend', 'opencl', '--device', '99', status=1)


def test_bench():
    opencl()
    done = infer('bench', cli.data(STORY), '-p', '40', '-n', '5', '-r', '1', '--backend', 'opencl', '--json').json()
    check(done['backend'] == 'opencl' and done['tps'] > 0, 'bench: %s' % done)
    text = infer('bench', cli.data(STORY), '-p', '40', '-n', '5', '-r', '1', '--backend', 'opencl', '--profile').out.decode()
    check('attention' in text and 'opencl' in text, text)


def test_info():
    opencl()
    memory = [infer('info', cli.data(STORY), '--json', '--backend', 'opencl', '--gpu-layers', n).json()['memory']
              for n in ('0', '2', '5')]
    check(memory[0]['device'] == 0 < memory[1]['device'] < memory[2]['device'], 'device memory: %s' % memory)
    check(memory[0]['cache'] > memory[1]['cache'] > memory[2]['cache'] == 0, 'cache: %s' % memory)


def test_fit():
    """As many layers as fit leave room for the cache that --ctx and --kv ask for."""
    opencl()
    def predicted(*options):
        return infer('info', cli.data(STORY), '--json', '--backend', 'opencl', *options).json()['memory']
    usual = predicted('--ctx', '1024')['devices'][0]
    check(usual['layers'] == 5, 'all layers fit: %s' % usual)
    ctx = int(usual['free'] / (usual['cache'] / 5 / 1024) / 3.5) # a layer's cache takes 2 / 7 of the memory
    if ctx > 1 << 30:
        raise cli.Skipped('the device has too much memory')
    large = predicted('--ctx', str(ctx))
    wide = predicted('--ctx', str(ctx), '--kv', 'f32')
    check(1 <= wide['devices'][0]['layers'] < large['devices'][0]['layers'] <= 3, 'layers: %s, %s' % (large, wide))


def test_kernel_cache():
    """Compiled kernels and the verdict on them are kept between runs; damaged files are made anew."""
    opencl()
    want = story('--backend', 'cpu').out
    folder = os.path.join(cli.TEMP, 'kernels')
    os.makedirs(folder, exist_ok=True)

    def kept(where, *options, **env):
        check(story('--backend', 'opencl', *options, **env).out == want, 'the story with %s' % (options,))
        return sorted(os.listdir(where)) if os.path.isdir(where) else []
    check(kept(folder, '--kernel-cache', '') == [], 'nothing is kept')
    files = kept(folder, '--kernel-cache', folder)
    check(len(files) >= 3 and all(f.startswith('infer-') and f.endswith('.bin') for f in files), 'kept: %s' % files)
    times = [os.stat(os.path.join(folder, f)).st_mtime_ns for f in files]
    check(kept(folder, '--kernel-cache', folder) == files, 'kept again')
    check([os.stat(os.path.join(folder, f)).st_mtime_ns for f in files] == times, 'files were written a second time')
    for f in files:
        with open(os.path.join(folder, f), 'r+b') as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last[0] ^ 1]))
    check(kept(folder, '--kernel-cache', folder) == files, 'damaged files')
    check([os.stat(os.path.join(folder, f)).st_mtime_ns for f in files] != times, 'damaged files stayed')
    kept(folder, '--kernel-cache', os.path.join(folder, 'missing'))
    if sys.platform.startswith('linux'):
        home = os.path.join(cli.TEMP, 'home')
        os.makedirs(home, exist_ok=True)
        check(len(kept(os.path.join(home, '.cache', 'infer'), HOME=home, XDG_CACHE_HOME='')) == len(files), 'the usual folder')


def test_two_devices():
    """pocl offers its device twice when asked: the layers are split, the story stays the same."""
    env = {'POCL_DEVICES': 'basic basic'}
    devices = [d for d in infer('devices', '--json', **env).json()['devices'] if d['api'] == 'opencl' and d['usable']]
    if len(devices) < 2:
        raise cli.Skipped('no two OpenCL devices')
    two = ('--devices', ','.join(str(d['device']) for d in devices[:2]))
    want = story('--backend', 'cpu').out
    for options in ([], ['--shares', '1,1'], ['--shares', '1,3', '--gpu-layers', '4'], ['--backend', 'opencl']):
        check(story(*two, *options, **env).out == want, 'two devices %s give another story' % options)
    memory = infer('info', cli.data(STORY), '--json', *two, '--shares', '1,3', '--gpu-layers', '4', **env).json()['memory']
    check([d['layers'] for d in memory['devices']] == [1, 3], 'layers: %s' % memory)
    check(memory['device'] == sum(d[k] for d in memory['devices'] for k in ('weights', 'cache', 'scratch')), 'sum: %s' % memory)
    check(0 < memory['cache'] < memory['cpu']['cache'], 'one layer is on the CPU: %s' % memory)
    text = infer('info', cli.data(STORY), *two, '--shares', '1,3', '--gpu-layers', '4', **env).out.decode()
    check('on the CPU: ' in text and devices[1]['name'] + ': 3 layers' in text, text)
    small = infer('info', cli.data(STORY), '--json', *two, '--batch', '16', '--ctx', '64', **env).json()['memory']
    check(small['device'] < memory['device'], '--batch and --ctx: %s' % small)
    for wrong in ('1,,2', 'x', '', '1,2,3,4,5,6,7,8,9', '1.5'):
        infer('info', cli.data(STORY), '--devices', wrong, status=1)
    infer('run', cli.data(STORY), '-p', 'x', *two, '--shares', '1', status=1, **env)
    infer('run', cli.data(STORY), '-p', 'x', '--devices', '0', status=1)


def test_auto():
    """A device that runs on the processor is not taken by itself; the log has a line for each API."""
    if any(d['auto'] for d in infer('devices', '--json').json()['devices'][1:]):
        raise cli.Skipped('this machine has a GPU')
    log = story('-v').err
    check('auto: the CPU' in log and log.count('auto: not ') == 4, log)


def make_test(name):
    def test():
        opencl()
        path, ids, want = cli.odd_model(name)
        options = ('--backend', 'opencl', '--kv', 'f32')
        cli.within(cli.logits(path, ids, *options), want, 1e-9, 'all layers')
        cli.within(cli.logits(path, ids, *options, '--gpu-layers', '1', '--batch', '5'), want, 1e-9, 'one layer, 5 at a time')
    test.__doc__ = 'made model %s on the device' % name
    return test


def all_tests():
    known = cli.supported()
    deep = os.environ.get('DEEP') == '1'
    return cli.tests_in(globals()) + [('made.' + n, make_test(n)) for n, s in make_model.MODELS.items()
                                      if s['arch'] in known and (deep or n in MADE)]


if __name__ == '__main__':
    cli.main(all_tests, __doc__)
